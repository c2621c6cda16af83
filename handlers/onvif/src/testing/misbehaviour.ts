import type { ServerResponse } from 'node:http'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { soapEnvelope, soapFault } from './device-replies.js'

type Answer = (response: ServerResponse, correct: string) => void

/** The faults of real cameras. Each function gets the correct reply, and sends something else. */
const ANSWERS = {
  /** Never answers. */
  silence: () => {},
  /** The correct reply, byte by byte. */
  'byte-by-byte': drip,
  'endless-body': (response, correct) => {
    response.writeHead(200, { 'content-type': 'application/soap+xml' })
    pour(response, correct.padEnd(65_536))
  },
  'endless-headers': ({ socket }) => {
    if (socket === null) return
    socket.write('HTTP/1.1 200 OK\r\n')
    pour(socket, `X-Filler: ${'x'.repeat(8000)}\r\n`)
  },
  /** Provisional replies without end, which HTTP allows. */
  'endless-hope': ({ socket }) => {
    if (socket !== null) pour(socket, 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1000))
  },
  'closed-connection': ({ socket }) => socket?.destroy(),
  'half-a-reply': ({ socket }, correct) =>
    socket?.end(
      `HTTP/1.1 200 OK\r\nContent-Length: ${correct.length}\r\n\r\n` +
        correct.slice(0, correct.length / 2),
    ),
  /** The correct reply as small devices write it: lines without CR, and an invalid header. */
  'naive-http': ({ socket }, correct) =>
    socket?.end(
      'HTTP/1.1 200 OK\nServer: \u0001camera\n' +
        `Content-Length: ${Buffer.byteLength(correct)}\n\n${correct}`,
    ),
  'no-http': ({ socket }) => socket?.end('220 camera FTP server ready\r\n'),
  'other-protocol': ({ socket }) =>
    socket?.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n',
    ),
  empty: (response) => send(response, ''),
  html: (response) => send(response, '<!DOCTYPE html><html><body><p>Welcome<br></body></html>'),
  'broken-xml': (response, correct) => send(response, correct.replace('</SOAP-ENV:Body>', '')),
  'entity-bomb': (response) => {
    const entities = Array.from(
      { length: 20 },
      (_, n) => `<!ENTITY e${n + 1} "${`&e${n};`.repeat(10)}">`,
    ).join('')
    send(
      response,
      `<!DOCTYPE e [<!ENTITY e0 "boom">${entities}]>` +
        soapEnvelope('&e20;').replace(/^<\?xml[^>]*>/, ''),
    )
  },
  'deep-xml': (response) =>
    send(response, soapEnvelope('<a>'.repeat(3_000) + '</a>'.repeat(3_000))),
  'many-elements': (response) => send(response, soapEnvelope(`<a>${'<b/>'.repeat(50_000)}</a>`)),
  'other-response': (response) => send(response, soapEnvelope('<tds:GetHostnameResponse/>')),
  'server-error': (response) => send(response, 'internal error', 500),
  fault: (response) => send(response, soapFault('ActionNotSupported', 'not\nsupported\u202e'), 500),
  /** A fault that asks for a credential. */
  'fault-of-soap-1.1': (response) =>
    send(response, soapFault('NotAuthorized', 'who are you?', '1.1'), 400),
  'basic-challenge': (response) =>
    response.writeHead(401, { 'www-authenticate': 'Basic realm="camera"' }).end(),
  /** The correct reply as SOAP 1.1. */
  'soap-1.1': (response, correct) =>
    send(
      response,
      correct.replace(
        'http://www.w3.org/2003/05/soap-envelope',
        'http://schemas.xmlsoap.org/soap/envelope/',
      ),
    ),
  /** The correct reply with unusual prefixes. */
  'other-prefixes': (response, correct) =>
    send(response, correct.replace(/(<\/?|xmlns:)(SOAP-ENV|tds|trt|tr2|tt)\b/g, '$1_9.$2')),
  /** The correct reply with prefixes that it does not declare. */
  'undeclared-prefixes': (response, correct) =>
    send(response, correct.replace(/ xmlns:[\w-]+="[^"]*"/g, '')),
  /** The correct reply, compressed, although the client did not ask for that. */
  gzip: (response, correct) =>
    send(response, gzipSync(correct), 200, { 'content-encoding': 'gzip' }),
  /** The same without a header that names the encoding. */
  'unnamed-gzip': (response, correct) => send(response, gzipSync(correct)),
  'half-a-gzip': (response, correct) => {
    const compressed = gzipSync(correct)
    send(response, compressed.subarray(0, compressed.length / 2), 200, {
      'content-encoding': 'gzip',
    })
  },
  /** Some megabytes in some kilobytes. */
  'gzip-bomb': (response) =>
    send(response, gzipSync(soapEnvelope('<a/>'.repeat(2_000_000)), { level: 1 }), 200, {
      'content-encoding': 'gzip',
    }),
  brotli: (response, correct) =>
    send(response, brotliCompressSync(correct), 200, { 'content-encoding': 'br' }),
  /** The correct reply as SOAP with attachments (MTOM). */
  multipart: (response, correct) =>
    send(response, multipart(correct), 200, {
      'content-type':
        'multipart/related; type="application/xop+xml"; start="<root>"; ' +
        'boundary="=_part"; start-info="application/soap+xml"',
    }),
  'multipart-without-boundary': (response, correct) =>
    send(response, multipart(correct), 200, { 'content-type': 'multipart/related' }),
  'multipart-without-root': (response, correct) =>
    send(response, multipart(correct), 200, {
      'content-type': 'multipart/related; start="<other>"; boundary="=_part"',
    }),
  /** The correct reply with two headers Content-Length, which have the same value. */
  'two-lengths': ({ socket }, correct) => {
    const length = `Content-Length: ${Buffer.byteLength(correct)}\r\n`
    socket?.end(`HTTP/1.1 200 OK\r\n${length}Connection: close\r\n${length}\r\n${correct}`)
  },
  'two-different-lengths': ({ socket }, correct) => {
    const length = Buffer.byteLength(correct)
    socket?.end(
      `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\nContent-Length: 5\r\n\r\n${correct}`,
    )
  },
  /** The correct reply, and then more than the header says. */
  'junk-after': ({ socket }, correct) =>
    socket?.end(
      `HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(correct)}\r\n\r\n${correct}` +
        '\r\n<!-- generated in 12 ms -->\r\n\0\0',
    ),
  'zeros-after': (response, correct) => send(response, `${correct}\0\0\0\n\0`),
  'white-space-before': (response, correct) => send(response, `\r\n \t\n${correct}`),
  /** The correct reply in Latin-1, as only the header says. */
  'charset-in-header': (response, correct) =>
    send(
      response,
      Buffer.from(
        correct.replace(/<\?xml[^>]*>/, '').replace('</tds:Model>', ' é</tds:Model>'),
        'latin1',
      ),
      200,
      { 'content-type': 'text/xml; charset="iso-8859-1"' },
    ),
  'unknown-charset': (response, correct) =>
    send(response, correct.replace(/<\?xml[^>]*>/, ''), 200, {
      'content-type': 'text/xml; charset=martian',
    }),
  /** The correct reply in Latin-1; the model ends with a character that needs it. */
  'latin-1': (response, correct) =>
    send(
      response,
      Buffer.from(
        correct.replace('UTF-8', 'ISO-8859-1').replace('</tds:Model>', ' é</tds:Model>'),
        'latin1',
      ),
    ),
} satisfies Record<string, Answer>

/** A way to misbehave. `endless-challenge`: the camera asks for a new digest each time. */
export type Misbehaviour =
  | keyof typeof ANSWERS
  | 'endless-challenge'
  | { readonly redirect: string }
  /** Another answer than the correct reply. */
  | { readonly answer: Answer }

/** Answers with a fault. @param correct the correct reply */
export function misbehave(
  how: Exclude<Misbehaviour, 'endless-challenge'>,
  response: ServerResponse,
  correct: string,
): void {
  if (typeof how === 'string') ANSWERS[how](response, correct)
  else if ('answer' in how) how.answer(response, correct)
  else response.writeHead(307, { location: how.redirect }).end()
}

function send(
  response: ServerResponse,
  body: string | Buffer,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/soap+xml', ...headers }).end(body)
}

function multipart(root: string): string {
  return (
    'This is a message of several parts.\r\n--=_part\r\nContent-Type: image/jpeg\r\n' +
    'Content-ID: <picture>\r\n\r\n...\r\n--=_part\r\n' +
    'Content-Type: application/xop+xml; charset=utf-8; type="application/soap+xml"\r\n' +
    `Content-Transfer-Encoding: binary\r\nContent-ID: <root>\r\n\r\n${root}\r\n--=_part--\r\n`
  )
}

/** The time between two bytes, in milliseconds. */
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

/** Writes a text again and again, as fast as the receiver reads. */
function pour(to: NodeJS.WritableStream & { readonly destroyed: boolean }, text: string): void {
  to.on('error', () => {})
  const more = () => {
    while (!to.destroyed && to.write(text)) {}
  }
  to.on('drain', more)
  more()
}
