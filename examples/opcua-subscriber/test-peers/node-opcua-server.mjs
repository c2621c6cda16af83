// usage: node-opcua-server.mjs PORT ADDRESS
// A server of node-opcua. Prints "listening" when it is.
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import opcua from 'node-opcua'

const [, , port, address] = process.argv
const rootFolder = mkdtempSync(path.join(os.tmpdir(), 'akri-node-opcua-'))
process.once('exit', () => rmSync(rootFolder, { recursive: true, force: true }))
const manager = new opcua.OPCUACertificateManager({ rootFolder })
const server = new opcua.OPCUAServer({
  host: address,
  hostname: address,
  port: Number(port),
  securityPolicies: [opcua.SecurityPolicy.None],
  securityModes: [opcua.MessageSecurityMode.None],
  serverCertificateManager: manager,
  userCertificateManager: manager,
})
await server.start()
process.stdout.write('listening\n')
