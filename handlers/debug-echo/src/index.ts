import { createDebugEcho, sharedFromEnvironment } from './debug-echo.js'

export { createDebugEcho, type DebugEchoOptions } from './debug-echo.js'

export default createDebugEcho({ shared: sharedFromEnvironment(process.env) })
