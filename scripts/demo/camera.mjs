// A simulated ONVIF camera. Arguments: title, UUID, and, for a camera with a login, user name and
// password.
import { SimulatedCamera } from '@akrijs/handler-onvif/testing'
import { ready } from './device.mjs'

const [title, uuid, username, password] = process.argv.slice(2)
process.title = title
const scopes = [
  'onvif://www.onvif.org/Profile/Streaming',
  `onvif://www.onvif.org/name/${title}`,
  'onvif://www.onvif.org/location/demo',
]
const credential = username === undefined ? undefined : { username, password }
const camera = await SimulatedCamera.start({ uuid, credential, identity: { scopes } })
await camera.hello()
ready(async () => {
  await camera.bye()
  await camera.close()
})
