import { deflateRawSync } from 'node:zlib'
import type { Misbehaviour } from '../../index.js'
import { type AwkwardCamera, page, raw } from './awkward-camera.js'

/** Accepts requests with some values of the header Content-Type only. */
const dialect = (accepts: (type: string) => boolean): Misbehaviour => ({
  answer: (response, correct) =>
    response
      .writeHead(accepts(response.req.headers['content-type'] ?? '') ? 200 : 415)
      .end(correct),
})

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
    expected: 'no answer of a camera',
  },
  { name: 'sends more than its length', misbehave: ['junk-after'], expected: 'offered none' },
  {
    name: 'writes lines that are no headers',
    misbehave: [raw('HTTP/1.1 200 OK\r\ncamera firmware 1.2\r\nServer : x\r\nConnection: close')],
    expected: 'offered none',
  },
  {
    name: 'takes no action in the Content-Type',
    misbehave: [dialect((type) => !type.includes('action='))],
    expected: 'offered none',
  },
  {
    name: 'takes the Content-Type of SOAP 1.1 only',
    misbehave: [dialect((type) => type.startsWith('text/xml'))],
    expected: 'offered none',
  },
  {
    name: 'takes no Content-Type',
    misbehave: [dialect(() => false)],
    expected: 'HTTP status 415',
  },
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
  {
    name: 'sends a body without end',
    misbehave: ['endless-body'],
    expected: 'no answer of a camera',
  },
  {
    name: 'sends headers without end',
    misbehave: ['endless-headers'],
    expected: 'no answer of a camera',
  },
  { name: 'speaks FTP', misbehave: ['no-http'], expected: 'no answer of a camera' },
  {
    name: 'switches the protocol',
    misbehave: ['other-protocol'],
    expected: 'no answer of a camera',
  },
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
