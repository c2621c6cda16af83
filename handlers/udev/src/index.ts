import { createUdevHandler } from './handler.js'

export type { UdevDetails } from './details.js'
export { UdevRuleError } from './errors.js'
export type { UdevHandlerOptions } from './handler.js'
export { createUdevHandler }

export default createUdevHandler()
