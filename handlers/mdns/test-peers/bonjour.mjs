// Announces a service with bonjour-service until SIGTERM. Arguments: name, type, port.
import { Bonjour } from 'bonjour-service'

const [name, type, port] = process.argv.slice(2)
const bonjour = new Bonjour()
const service = bonjour.publish({ name, type, port: Number(port), txt: { ty: 'Laser 9' } })
service.on('up', () => process.stdout.write('up\n'))
process.once('SIGTERM', () => bonjour.unpublishAll(() => bonjour.destroy(() => process.exit(0))))
