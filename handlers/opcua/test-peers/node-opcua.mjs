// A discovery server by node-opcua at port 4840, and a server with secured endpoints at 4841 that registers with it. SIGUSR1 ends
// the latter in good order. Argument: the address to be known by.
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import opcua from 'node-opcua'

const [hostname] = process.argv.slice(2)
const folder = mkdtempSync(path.join(os.tmpdir(), 'akri-node-opcua-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))

/** Each application needs a store of its own, or the discovery server refuses it. */
async function certificates(name) {
  const manager = new opcua.OPCUACertificateManager({
    rootFolder: path.join(folder, name),
    automaticallyAcceptUnknownCertificate: true,
  })
  await manager.initialize()
  return manager
}

const discoveryServer = new opcua.OPCUADiscoveryServer({
  port: 4840,
  hostname,
  alternateHostname: hostname,
  serverCertificateManager: await certificates('discovery'),
})
await discoveryServer.start()
const serverCertificateManager = await certificates('server')
const server = new opcua.OPCUAServer({
  port: 4841,
  hostname,
  alternateHostname: hostname,
  serverCertificateManager,
  userCertificateManager: serverCertificateManager,
  serverInfo: {
    applicationUri: 'urn:test:registered',
    applicationName: { text: 'Registered' },
    productUri: 'urn:test:node-opcua',
  },
  registerServerMethod: opcua.RegisterServerMethod.LDS,
  discoveryServerEndpointUrl: `opc.tcp://${hostname}:4840`,
})
const registered = new Promise((resolve) => server.once('serverRegistered', resolve))
await server.start()
await registered
process.stdout.write('registered\n')
process.once('SIGUSR1', () => server.shutdown(0))
process.once('SIGTERM', () => process.exit(0))
