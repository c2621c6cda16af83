import type { ServerResponse } from 'node:http'
import { soapEnvelope, soapFault } from './device-replies.js'

type Answer = (response: ServerResponse, right: string) => void

/** What may be wrong with a camera. Each gets the reply that the request deserves, and does something else with it. */
const ANSWERS = {
  /** Takes the request and never answers. */
  silence: () => {},
  /** The right reply, one byte after the other. */
  'byte-by-byte': drip,
  'endless-body': (response, right) => {
    response.writeHead(200, { 'content-type': 'application/soap+xml' })
    pour(response, right.padEnd(65_536))
  },
  'endless-headers': ({ socket }) => {
    if (socket === null) return
    socket.write('HTTP/1.1 200 OK\r\n')
    pour(socket, `X-Filler: ${'x'.repeat(8000)}\r\n`)
  },
  /** A provisional reply after the other, which HTTP allows, and never the real one. */
  'endless-hope': ({ socket }) => {
    if (socket !== null) pour(socket, 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1000))
  },
  'closed-connection': ({ socket }) => socket?.destroy(),
  'half-a-reply': ({ socket }, right) =>
    socket?.end(
      `HTTP/1.1 200 OK\r\nContent-Length: ${right.length}\r\n\r\n${right.slice(0, right.length / 2)}`,
    ),
  /** The right reply as small devices write it: lines without CR, and a header that is none. */
  'naive-http': ({ socket }, right) =>
    socket?.end(
      `HTTP/1.1 200 OK\nServer: \u0001camera\nContent-Length: ${Buffer.byteLength(right)}\n\n${right}`,
    ),
  'no-http': ({ socket }) => socket?.end('220 camera FTP server ready\r\n'),
  'other-protocol': ({ socket }) =>
    socket?.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n',
    ),
  empty: (response) => send(response, ''),
  html: (response) => send(response, '<!DOCTYPE html><html><body><p>Welcome<br></body></html>'),
  'broken-xml': (response, right) => send(response, right.replace('</SOAP-ENV:Body>', '')),
  'entity-bomb': (response) => {
    const entities = Array.from(
      { length: 20 },
      (_, n) => `<!ENTITY e${n + 1} "${`&e${n};`.repeat(10)}">`,
    ).join('')
    send(
      response,
      `<!DOCTYPE e [<!ENTITY e0 "boom">${entities}]>${soapEnvelope('&e20;').replace(/^<\?xml[^>]*>/, '')}`,
    )
  },
  'deep-xml': (response) =>
    send(response, soapEnvelope('<a>'.repeat(3_000) + '</a>'.repeat(3_000))),
  'many-elements': (response) => send(response, soapEnvelope(`<a>${'<b/>'.repeat(50_000)}</a>`)),
  'other-response': (response) => send(response, soapEnvelope('<tds:GetHostnameResponse/>')),
  'server-error': (response) => send(response, 'internal error', 500),
  fault: (response) => send(response, soapFault('ActionNotSupported', 'not\nsupported\u202e'), 500),
  /** A fault that says that a credential is wanted. */
  'fault-of-soap-1.1': (response) =>
    send(response, soapFault('NotAuthorized', 'who are you?', '1.1'), 400),
  'basic-challenge': (response) =>
    response.writeHead(401, { 'www-authenticate': 'Basic realm="camera"' }).end(),
  /** The right reply, as SOAP 1.1. */
  'soap-1.1': (response, right) =>
    send(
      response,
      right.replace(
        'http://www.w3.org/2003/05/soap-envelope',
        'http://schemas.xmlsoap.org/soap/envelope/',
      ),
    ),
  /** The right reply, with prefixes that nobody expects. */
  'other-prefixes': (response, right) =>
    send(response, right.replace(/(<\/?|xmlns:)(SOAP-ENV|tds|trt|tr2|tt)\b/g, '$1_9.$2')),
  /** The right reply, with prefixes that are declared nowhere. */
  'undeclared-prefixes': (response, right) =>
    send(response, right.replace(/ xmlns:[\w-]+="[^"]*"/g, '')),
  /** The right reply, where the model ends with a Latin-1 character. */
  'latin-1': (response, right) =>
    send(
      response,
      Buffer.from(
        right.replace('UTF-8', 'ISO-8859-1').replace('</tds:Model>', ' é</tds:Model>'),
        'latin1',
      ),
    ),
} satisfies Record<string, Answer>

/** A way to misbehave. `endless-challenge`: wants a new digest each time. */
export type Misbehaviour =
  | keyof typeof ANSWERS
  | 'endless-challenge'
  | { readonly redirect: string }

/** Answers wrongly. @param right the reply that the request deserves */
export function misbehave(
  how: keyof typeof ANSWERS | { readonly redirect: string },
  response: ServerResponse,
  right: string,
): void {
  if (typeof how === 'object') response.writeHead(307, { location: how.redirect }).end()
  else ANSWERS[how](response, right)
}

function send(response: ServerResponse, body: string | Buffer, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/soap+xml' }).end(body)
}

/** In milliseconds between two bytes. */
const BYTE_MS = 50

function drip(response: ServerResponse, text: string): void {
  const bytes = Buffer.from(text)
  response.writeHead(200, {
    'content-type': 'application/soap+xml',
    'content-length': bytes.length,
  })
  let at = 0
  const timer = setInterval(() => {
    if (at < bytes.length) response.write(bytes.subarray(at, ++at))
    else response.end()
  }, BYTE_MS)
  response.once('close', () => clearInterval(timer))
}

/** Writes the same again and again, as fast as it is taken. */
function pour(to: NodeJS.WritableStream & { readonly destroyed: boolean }, text: string): void {
  to.on('error', () => {})
  const more = () => {
    while (!to.destroyed && to.write(text)) {}
  }
  to.on('drain', more)
  more()
}
