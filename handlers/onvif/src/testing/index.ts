// `@akrijs/handler-onvif/testing`: a simulated camera for tests of handlers, brokers and clients.
// Nothing else of this folder is published.
export type { Credential } from '../credentials.js'
export type { AnnouncementText } from './device-messages.js'
export type { SimulatedIdentity } from './device-replies.js'
export { DeviceService, type DeviceServiceOptions, type SeenRequest } from './device-service.js'
export type { DiscoveryFaults } from './discovery-responder.js'
export type { Misbehaviour } from './misbehaviour.js'
export type { AuthenticationKind } from './request-authentication.js'
export { SimulatedCamera, type SimulatedCameraOptions } from './simulated-camera.js'
