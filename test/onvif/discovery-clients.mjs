// Writes as JSON which cameras the ONVIF clients of npm find by WS-Discovery on this host.
import nodeOnvif from 'node-onvif'
import onvif from 'onvif'

/** @type {{ urn: string, xaddrs: string[] }[]} */
const byNodeOnvif = (await nodeOnvif.startProbe()).map(({ urn, xaddrs }) => ({ urn, xaddrs }))

onvif.Discovery.on('error', () => {})
const byOnvif = await new Promise((resolve, reject) => {
  onvif.Discovery.probe({ timeout: 2000, resolve: false }, (error, answers) =>
    error ? reject(error) : resolve(answers),
  )
})
const matches = byOnvif.map(({ probeMatches }) => {
  const { endpointReference, XAddrs } = probeMatches.probeMatch
  return { urn: endpointReference.address, xaddrs: XAddrs.split(' ') }
})
process.stdout.write(JSON.stringify({ 'node-onvif': byNodeOnvif, onvif: matches }))
process.exit(0)
