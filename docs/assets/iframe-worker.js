// Search in pages that are opened as files: browsers refuse a Worker there, so a hidden frame does its work.
// mkdocs.yml names it as a polyfill, in the place of one that would be fetched from elsewhere.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = `<script>parent.IFrameWorker.frames.shift().adopt(self)<\/script><script src="${url}"><\/script>`
      this.frame = frame
      this.loaded = new Promise(done => frame.addEventListener("load", done))
      window.IFrameWorker.frames.push(this)
      document.body.appendChild(frame)
    }

    adopt(inside) {
      // What the worker posts goes to the page, not to itself; a window's postMessage would do the latter.
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}))
    }

    postMessage(data) {
      this.loaded.then(() => {
        const inside = this.frame.contentWindow
        inside.dispatchEvent(new inside.MessageEvent("message", {data}))
      })
    }

    terminate() {
      this.frame.remove()
    }
  }
  window.IFrameWorker.frames = []
  window.Worker = window.IFrameWorker
}
