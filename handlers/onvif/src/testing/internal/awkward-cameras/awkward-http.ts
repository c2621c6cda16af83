import { deflateRawSync } from 'node:zlib'
import { type AwkwardCamera, page, raw } from './awkward-camera.js'

export const HTTP: readonly AwkwardCamera[] = [
  { name: 'ends lines without CR', misbehave: ['naive-http'], expected: 'offered none' },
  {
    name: 'answers by HTTP/1.0 without a length',
    misbehave: [raw('HTTP/1.0 200 OK')],
    expected: 'offered none',
  },
  { name: 'writes its length twice', misbehave: ['two-lengths'], expected: 'offered none' },
  {
    name: 'writes two different lengths',
    misbehave: ['two-different-lengths'],
    expected: 'not reachable',
  },
  { name: 'sends more than its length', misbehave: ['junk-after'], expected: 'offered none' },
  {
    name: 'sends no Content-Type',
    misbehave: [raw('HTTP/1.1 200 OK\r\nConnection: close')],
    expected: 'offered none',
  },
  { name: 'compresses without being asked', misbehave: ['gzip'], expected: 'offered none' },
  { name: 'compresses and does not say so', misbehave: ['unnamed-gzip'], expected: 'offered none' },
  {
    name: 'sends half of a compressed answer',
    misbehave: ['half-a-gzip'],
    expected: 'no answer of a camera',
  },
  {
    name: 'sends megabytes in kilobytes',
    misbehave: ['gzip-bomb'],
    expected: 'no answer of a camera',
  },
  {
    name: 'compresses by deflate without the header of zlib',
    misbehave: [
      {
        answer: (response, correct) =>
          response.writeHead(200, { 'content-encoding': 'deflate' }).end(deflateRawSync(correct)),
      },
    ],
    expected: 'offered none',
  },
  { name: 'compresses by brotli', misbehave: ['brotli'], expected: 'no answer of a camera' },
  { name: 'answers in several parts', misbehave: ['multipart'], expected: 'offered none' },
  {
    name: 'answers in parts without a boundary',
    misbehave: ['multipart-without-boundary'],
    expected: 'no answer of a camera',
  },
  {
    name: 'answers in parts without the root',
    misbehave: ['multipart-without-root'],
    expected: 'no answer of a camera',
  },
  {
    name: 'closes each connection',
    misbehave: ['closed-connection'],
    expected: 'connection closed',
  },
  {
    name: 'closes the connection in a reply',
    misbehave: ['half-a-reply'],
    expected: 'connection closed',
  },
  { name: 'never answers', misbehave: ['silence'], expected: 'no answer in time' },
  { name: 'sends hints without end', misbehave: ['endless-hope'], expected: 'no answer in time' },
  { name: 'sends a body without end', misbehave: ['endless-body'], expected: 'not reachable' },
  { name: 'sends headers without end', misbehave: ['endless-headers'], expected: 'not reachable' },
  { name: 'speaks FTP', misbehave: ['no-http'], expected: 'not reachable' },
  { name: 'switches the protocol', misbehave: ['other-protocol'], expected: 'not reachable' },
  {
    name: 'redirects',
    misbehave: [{ redirect: 'http://127.0.0.1/' }],
    expected: 'HTTP status 307',
  },
  { name: 'answers by a page', misbehave: ['html'], expected: 'no answer of a camera' },
  { name: 'does not have the page', misbehave: [page(404)], expected: 'HTTP status 404' },
  { name: 'forbids each call', misbehave: [page(403)], expected: 'HTTP status 403' },
  { name: 'is busy', misbehave: [page(503)], expected: 'HTTP status 503' },
]
