import { createDebugEcho, optionsFromEnvironment } from './debug-echo.js'

export { createDebugEcho, type DebugEchoOptions } from './debug-echo.js'

export default createDebugEcho(optionsFromEnvironment(process.env))
