// The search of the site runs in a Web Worker, which browsers refuse to start for pages opened from disk. There, the same
// script runs in a hidden iframe with the same interface. (Named so that the theme does not load its own from a CDN.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      window.addEventListener("message", event => {
        if (event.source === this.inside)
          this.dispatchEvent(new MessageEvent("message", { data: event.data }))
      })
      const page = this.inside.document
      page.open()
      page.write("<script>postMessage = message => parent.postMessage(message, '*')</scr" + "ipt>")
      page.close()
      const script = page.createElement("script")
      script.src = url
      script.onload = () => {
        const messages = this.waiting
        this.waiting = null
        messages.forEach(message => this.postMessage(message))
      }
      page.body.appendChild(script)
    }
    postMessage(message) {
      if (this.waiting) this.waiting.push(message)
      else this.inside.dispatchEvent(new MessageEvent("message", { data: message }))
    }
    terminate() {}
  }
}
