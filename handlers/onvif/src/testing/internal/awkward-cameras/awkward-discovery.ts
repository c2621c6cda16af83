import { soapEnvelope, soapFault } from '../../device-replies.js'
import { type AwkwardCamera, inSingleBytes } from './awkward-camera.js'

export const DISCOVERY: readonly AwkwardCamera[] = [
  {
    name: 'tells its URL in a ResolveMatch only',
    faults: { withoutUrls: true },
    expected: 'offered none',
  },
  { name: 'tells its URL nowhere', options: () => ({ xAddrs: [] }), expected: 'no URL announced' },
  { name: 'ends its answer by zeros', faults: { tail: '\0\0\0' }, expected: 'offered none' },
  {
    name: 'ends its answer by a zero and a line',
    faults: { tail: '\0\r\n' },
    expected: 'offered none',
  },
  {
    name: 'begins its answer by white space',
    faults: { rewrite: (text) => `\r\n \t${text}` },
    expected: 'offered none',
  },
  {
    name: 'begins its answer by a byte order mark',
    faults: { rewrite: (text) => `\ufeff${text}` },
    expected: 'offered none',
  },
  {
    name: 'declares UTF-16 in an answer that is UTF-8',
    faults: { rewrite: (text) => text.replace('encoding="UTF-8"', 'encoding="utf-16"') },
    expected: 'offered none',
  },
  {
    name: 'declares UTF-8, and writes a scope in GB2312',
    faults: { rewrite: (text) => inSingleBytes(text, '</d:Scopes>') },
    expected: 'offered none',
  },
  {
    name: 'declares no encoding, and writes a scope in Latin-1',
    faults: {
      rewrite: (text) => inSingleBytes(text.replace(/<\?xml[^>]*>/, ''), '</d:Scopes>', 'caf\xe9'),
    },
    expected: 'offered none',
  },
  {
    name: 'writes its UUID in upper case',
    faults: {
      rewrite: (text) =>
        text.replace(
          /urn:uuid:[\w-]+(?=<\/a:Address>)/,
          (id) => `urn:uuid:${id.slice(9).toUpperCase()}`,
        ),
    },
    expected: 'offered none',
  },
  {
    name: 'writes its UUID as uuid:',
    faults: { rewrite: (text) => text.replace('<a:Address>urn:', '<a:Address>') },
    expected: 'offered none',
  },
  {
    name: 'writes a bare UUID on a line of its own',
    faults: {
      rewrite: (text) =>
        text
          .replace('<a:Address>urn:uuid:', '<a:Address>\n  ')
          .replace('</a:Address>', '\n</a:Address>'),
    },
    expected: 'offered none',
  },
  {
    name: 'declares no prefix of its types',
    options: () => ({ types: ['wsdn:NetworkVideoTransmitter'] }),
    expected: 'offered none',
  },
  {
    name: 'announces the type of a device alone',
    options: () => ({ types: ['tds:Device'] }),
    expected: 'offered none',
  },
  {
    name: 'announces no type, and scopes of ONVIF',
    options: () => ({ types: [] }),
    expected: 'offered none',
  },
  {
    name: 'announces no scopes',
    options: () => ({ identity: { scopes: [] } }),
    expected: 'offered none',
  },
  {
    name: 'is a printer with WS-Discovery',
    options: () => ({
      types: ['wprt:PrintDeviceType'],
      identity: { scopes: ['ldap:///ou=office'] },
    }),
    expected: 'device of another type',
  },
  {
    name: 'answers a Probe by a SOAP fault',
    faults: { rewrite: () => soapFault('InvalidArgVal', 'no such type') },
    expected: 'SOAP fault',
  },
  {
    name: 'answers a Probe without a device',
    faults: {
      rewrite: (text) => text.replace(/<d:ProbeMatch>.*<\/d:ProbeMatch>/, ''),
    },
    expected: 'answer not readable',
  },
  {
    name: 'answers a Probe by another message',
    faults: { rewrite: () => soapEnvelope('<tds:GetHostnameResponse/>') },
    expected: 'answer not readable',
  },
  { name: 'announces scopes of 14 KB', faults: { huge: true }, expected: 'offered none' },
  { name: 'sends half an answer', faults: { garbage: true }, expected: 'answer not readable' },
  {
    name: 'answers a Probe that nothing sent',
    faults: { wrongRelatesTo: true },
    expected: 'answer not readable',
  },
  {
    name: 'answers without RelatesTo',
    faults: { rewrite: (text) => text.replace(/<a:RelatesTo.*<\/a:RelatesTo>/, '') },
    expected: 'answer not readable',
  },
  {
    name: 'answers without an endpoint reference',
    faults: {
      rewrite: (text) => text.replace(/<a:EndpointReference>.*<\/a:EndpointReference>/, ''),
    },
    expected: 'answer not readable',
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
  {
    name: 'answers no Probe, and sends a Hello',
    faults: { silent: true },
    hello: true,
    expected: 'offered none',
  },
]
