// The controller as it is built, in a process that also counts its requests.
import { pathToFileURL } from 'node:url'
import { serveCommands } from './protocol.js'
import { RequestMeter } from './request-meter.js'

const meter = new RequestMeter()
serveCommands({ counts: async () => meter.counts() })
const [, , program = ''] = process.argv
process.argv.splice(1, 2, program)
await import(pathToFileURL(program).href)
