// An OPC UA server of node-opcua that announces itself by multicast DNS. Arguments: port, path.
import { mkdtempSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import opcua from 'node-opcua'

const [port, resourcePath] = process.argv.slice(2)
const rootFolder = mkdtempSync(path.join(os.tmpdir(), 'akri-opcua-'))
const server = new opcua.OPCUAServer({
  port: Number(port),
  resourcePath,
  registerServerMethod: opcua.RegisterServerMethod.MDNS,
  serverInfo: { applicationName: { text: 'Announced' }, applicationUri: 'urn:akri:test:announced' },
  capabilitiesForMDNS: ['DA', 'HD'],
  serverCertificateManager: new opcua.OPCUACertificateManager({ rootFolder }),
})
await server.start()
process.stdout.write('announced\n')
process.once('SIGTERM', () => server.shutdown(0).then(() => process.exit(0)))
