"""Fifty sentences of today, written for this: news, shopping, finance, medicine and chat; what a
model makes of them.

    python benchmarks/today.py [--model ner] [--lexicon FILE …] [--names plain|labelled] [--show]
    [--json OUT]

Gold names stand in brackets. `--names` adds the names of companies and products below to the
dictionary, as words alone or with their labels, as a user of such text would. Each gold name is
found, or found with wrong borders, with a wrong label, with both, or missed; and what overlaps no
gold name is invented.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from typing import Any

import script

from hanlattice import load
from hanlattice.evaluation.ner import score
from hanlattice.evaluation.report import percent
from hanlattice.text.span import Span

SENTENCES = """
[比亚迪/ORG]董事长[王传福/PER]周二在[深圳/LOC]表示，新工厂明年投产。
[小米/ORG]创始人[雷军/PER]说，汽车业务今年会盈利。
据[路透社/ORG]报道，[英伟达/ORG]计划在[台北/LOC]设立新总部。
[黄仁勋/PER]上周抵达[北京/LOC]，出席了一场发布会。
[美团/ORG]和[饿了么/ORG]的骑手都在这家店门口等餐。
[国家统计局/ORG]今天公布了十月份的居民消费价格指数。
[宁德时代/ORG]与[上汽集团/ORG]签署了为期五年的供货协议。
[乌克兰/LOC]总统[泽连斯基/PER]将于周四访问[华沙/LOC]。
[上海迪士尼/LOC]国庆期间限流，门票要提前三天预约。
[张桂梅/PER]校长又送走了一届毕业生，[华坪女高/ORG]的本科上线率再创新高。
[阿里巴巴/ORG]第三财季营收同比增长百分之五。
[中芯国际/ORG]的股价早盘一度上涨百分之七。
[贵州茅台/ORG]拟每十股派发现金红利二百元。
[高盛/ORG]上调了对[中国/LOC]经济增速的预测。
[巴菲特/PER]旗下的[伯克希尔/ORG]再次减持了[苹果/ORG]的股票。
[证监会/ORG]对[恒大地产/ORG]处以四十亿元罚款。
[香港交易所/ORG]宣布下月起延长交易时间。
[招商银行/ORG]下调了三年期定期存款的利率。
[深交所/ORG]向这家公司发出了问询函。
[余承东/PER]在直播里展示了[华为/ORG]的新款折叠屏手机。
我在[京东/ORG]买的扫地机器人三天就坏了，客服还不给退。
[李佳琦/PER]直播间的价格比[天猫/ORG]旗舰店便宜二十块。
这件羽绒服是在[优衣库/ORG]买的，穿着很暖和。
快递从[义乌/LOC]发出，到[乌鲁木齐/LOC]整整走了八天。
[海底捞/ORG]的服务是真的好，就是排队太久。
[名创优品/ORG]在[伦敦/LOC]开了第一家旗舰店。
这款面膜成分一般，价格倒是不便宜。
[瑞幸/ORG]的生椰拿铁今天九块九，要不要拼单？
充电宝收到了，比图片上小一圈，充得挺快。
[盒马/ORG]的榴莲千层明天就下架了。
患者三天前出现发热，遂至[协和医院/ORG]就诊。
[钟南山/PER]院士建议老年人及时接种流感疫苗。
[恒瑞医药/ORG]的新药获得[国家药监局/ORG]批准上市。
[华西医院/ORG]的[陈明/PER]医生每周三下午出专家门诊。
[世卫组织/ORG]总干事[谭德塞/PER]在[日内瓦/LOC]召开了记者会。
阿司匹林和布洛芬不能同时服用。
[辉瑞/ORG]公布了新冠口服药的三期临床数据。
[武汉/LOC]的专家远程会诊了[拉萨/LOC]的一名患儿。
复查的核磁共振显示病灶比上次缩小了三分之一。
[张文宏/PER]说这波感染高峰预计月底过去。
[刘洋/PER]你到哪了？我在[西单/LOC]地铁站等你。
周末去[莫干山/LOC]露营吗，[小红书/ORG]上说枫叶红了。
哈哈哈笑死，这猫怎么这么胖。
妈我到[广州/LOC]了，今晚住在表姐家。
[周杰伦/PER]的演唱会门票又没抢到，气死了。
帮我问问[王/PER]老师明天还上不上课。
[腾讯/ORG]的面试过了，下周去[深圳/LOC]报到！
他昨晚看[湖人/ORG]的比赛看到三点，[詹姆斯/PER]拿了四十分。
[豆瓣/ORG]评分才六点二，别浪费钱了。
我爸非说[成都/LOC]的火锅比[重庆/LOC]的好吃。
"""
NAMES = {
    "ORG": "比亚迪 小米 英伟达 美团 饿了么 宁德时代 上汽集团 华坪女高 阿里巴巴 中芯国际 "
    "贵州茅台 高盛 伯克希尔 "
    "恒大地产 招商银行 深交所 华为 京东 天猫 优衣库 海底捞 名创优品 "
    "瑞幸 盒马 恒瑞医药 辉瑞 华西医院 "
    "小红书 腾讯 湖人 豆瓣",
    "LOC": "上海迪士尼",
}
NAME = re.compile(r"\[([^/\]]+)/([A-Z]+)\]")


def gold_of(marked: str) -> tuple[str, list[Span]]:
    """The sentence without its brackets, and its names."""
    text = ""
    spans = []
    at = 0
    for match in NAME.finditer(marked):
        text += marked[at : match.start()]
        spans.append(Span(len(text), len(text) + len(match[1]), match[2]))
        text = text + match[1]
        at = match.end()
    return text + marked[at:], spans


def kinds(gold: list[Span], found: list[Span]) -> Counter[str]:
    """What became of each gold name, and how many found ones overlap none."""
    counts: Counter[str] = Counter()
    for name in gold:
        near = [span for span in found if span.start < name.end and name.start < span.end]
        exact = [span for span in near if (span.start, span.end) == (name.start, name.end)]
        if not near:
            counts["missed"] += 1
        elif exact:
            counts["right" if exact[0].label == name.label else "label"] += 1
        else:
            counts["borders" if any(span.label == name.label for span in near) else "both"] += 1
    counts["invented"] = sum(
        all(span.end <= name.start or name.end <= span.start for name in gold) for span in found
    )
    return counts


def run(options: argparse.Namespace) -> dict[str, Any]:
    texts, gold = zip(*map(gold_of, SENTENCES.split()), strict=True)
    tagger = load(options.model)
    for file in options.lexicon:
        tagger.lexicon.load(file)
    for label, words in NAMES.items() if options.names else ():
        for word in words.split():
            tagger.lexicon.add(word, label=label if options.names == "labelled" else "")
    found = [list(document.spans) for document in tagger.pipe(texts)]
    counts: Counter[str] = Counter()
    for text, ours, theirs in zip(texts, gold, found, strict=True):
        counts.update(kinds(ours, theirs))
        if options.show and ours != theirs:
            print(
                text, *(f"{text[span.start : span.end]}/{span.label}" for span in theirs), sep="  "
            )
    report = score(gold, found)
    whole = sum(ours == theirs for ours, theirs in zip(gold, found, strict=True))
    print(
        f"{whole} of {len(texts)} sentences right, F1 {percent(report.overall.f1)}; {dict(counts)}"
    )
    return {
        "sentences": len(texts),
        "right": whole,
        "f1": report.overall.f1,
        "kinds": counts,
        "report": report.as_dict(),
    }


if __name__ == "__main__":
    parser = script.make_parser(__doc__)
    parser.add_argument("--model", default="ner")
    parser.add_argument(
        "--lexicon", action="append", default=[], help="a dictionary file; may be repeated"
    )
    parser.add_argument(
        "--names", choices=("plain", "labelled"), help="add NAMES to the dictionary"
    )
    parser.add_argument(
        "--show", action="store_true", help="print the sentences that are not right"
    )
    script.run(run, parser.parse_args())
