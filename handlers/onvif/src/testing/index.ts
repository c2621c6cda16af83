// `@akrijs/handler-onvif/testing`: a camera to test handlers, brokers and clients against.
export type { Credential } from '../credentials.js'
export type { AnnouncementText } from '../discovery/message.js'
export { DeviceService, type DeviceServiceOptions, type SeenRequest } from './device-service.js'
export type { DiscoveryFaults } from './discovery-responder.js'
export { SimulatedCamera, type SimulatedCameraOptions } from './simulated-camera.js'
