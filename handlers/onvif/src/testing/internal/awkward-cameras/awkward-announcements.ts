import { issueAuthority } from '../../../../../../webhook/src/certificates/x509.js'
import { type AwkwardCamera, announcing, at, DEVICE, type Place } from './awkward-camera.js'

const tls = await issueAuthority('camera', {
  notBefore: new Date(Date.now() - 3_600_000),
  notAfter: new Date(Date.now() + 3_600_000),
})

export const ANNOUNCEMENTS: readonly AwkwardCamera[] = [
  {
    name: 'announces a closed port before its port',
    options: announcing((to) => `http://${to.address}:${to.closedPort}/`, at),
    expected: 'offered none',
  },
  {
    name: 'announces a closed port only',
    options: announcing((to) => `http://${to.address}:${to.closedPort}/`),
    expected: 'connection refused',
  },
  {
    name: 'announces the address of another network',
    options: announcing(() => 'http://192.168.1.10/onvif/device_service'),
    expected: 'address not allowed',
  },
  {
    name: 'announces the address of another network and its own',
    options: announcing(() => 'http://192.168.1.10/', at),
    expected: 'offered none',
  },
  {
    name: 'announces the metadata service of a cloud',
    options: announcing(() => 'http://169.254.169.254/latest/'),
    expected: 'address not allowed',
  },
  {
    name: 'announces a stream only',
    options: announcing((to) => `rtsp://${to.address}/main`),
    expected: 'address not allowed',
  },
  {
    name: 'announces a stream and its service',
    options: announcing((to) => `rtsp://${to.address}/main`, at),
    expected: 'offered none',
  },
  {
    name: 'announces a password in its URL',
    options: announcing((to) => `http://admin:admin@${to.address}:${to.port}${DEVICE}`),
    expected: 'address not allowed',
  },
  {
    name: 'announces what is no URL',
    options: announcing(() => 'http://[camera'),
    expected: 'address not allowed',
  },
  {
    name: 'separates its URLs by tabs and lines',
    options: announcing((to) => `http://${to.address}:${to.closedPort}/`, at),
    faults: { rewrite: (text) => text.replace(/(<d:XAddrs>\S+) /, '$1\t\r\n  ') },
    expected: 'offered none',
  },
  {
    name: 'announces nine URLs, of which the last one answers',
    options: announcing(
      ...Array.from(
        { length: 8 },
        (_, n) => (to: Place) => `http://${to.address}:${to.closedPort}/${n}`,
      ),
      at,
    ),
    expected: 'connection refused',
  },
  {
    name: 'has another path than other cameras',
    options: announcing((to) => at(to, '/onvif/Device?x=1&y=2')),
    expected: 'offered none',
  },
  {
    name: 'has https with its own certificate',
    options: () => ({ tls }),
    expected: 'offered none',
  },
  {
    name: 'announces no scopes',
    options: () => ({ identity: { scopes: [] } }),
    expected: 'offered none',
  },
  {
    name: 'announces no version of its metadata',
    faults: { rewrite: (text) => text.replace(/<d:MetadataVersion>.*<\/d:MetadataVersion>/, '') },
    expected: 'offered none',
  },
  {
    name: 'announces a version that is no number',
    faults: { rewrite: (text) => text.replace(/(<d:MetadataVersion>)[^<]*/, '$1now') },
    expected: 'offered none',
  },
]
