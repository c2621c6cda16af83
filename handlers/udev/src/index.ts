import { createUdevHandler } from './handler.js'

export { createUdevHandler, type UdevHandlerOptions } from './handler.js'

export default createUdevHandler()
