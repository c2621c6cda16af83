// A simulated ONVIF camera. Arguments: title, UUID, port, and, for a camera with a login, user name
// and password.
import { randomUUID } from 'node:crypto'
import { SimulatedCamera } from '@akrijs/handler-onvif/testing'
import { ready, usablePort } from './device.mjs'
import { picture } from './picture.mjs'

const [title, keptUuid, keptPort, username, password] = process.argv.slice(2)
process.title = title
const scopes = [
  'onvif://www.onvif.org/Profile/Streaming',
  `onvif://www.onvif.org/name/${title}`,
  'onvif://www.onvif.org/location/demo',
]
const credential = username === undefined ? undefined : { username, password }
const port = await usablePort(Number(keptPort))
// At another address it is another camera: a broker of the camera before has the old address.
const uuid = port === Number(keptPort) ? keptUuid : randomUUID()
const camera = await SimulatedCamera.start({
  uuid,
  port,
  credential,
  identity: { scopes },
  picture: () => picture(title, new Date()),
})
await camera.hello()
ready({ [title]: { uuid, port: camera.service.port } }, async () => {
  await camera.bye()
  await camera.close()
})
