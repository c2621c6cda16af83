import { createOnvifHandler } from './handler.js'

export type { OnvifDetails } from './details.js'
export { createOnvifHandler, type OnvifHandlerOptions } from './handler.js'

export default createOnvifHandler()
