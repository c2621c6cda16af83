// Replaces in the bundle what the MQTT library loads and the handler does not use. Of the package
// `debug`, it is a logger that writes nothing: the library gives `debug` each packet, also passwords.
module.exports = () => Object.assign(() => undefined, { enabled: false })
