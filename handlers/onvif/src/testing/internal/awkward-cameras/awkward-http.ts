import { type AwkwardCamera, page, raw } from './awkward-camera.js'

export const HTTP: readonly AwkwardCamera[] = [
  {
    name: 'answers by HTTP/1.0 without a length',
    misbehave: [raw('HTTP/1.0 200 OK')],
    expected: 'offered none',
  },
  {
    name: 'sends no Content-Type',
    misbehave: [raw('HTTP/1.1 200 OK\r\nConnection: close')],
    expected: 'offered none',
  },
  {
    name: 'closes each connection',
    misbehave: ['closed-connection'],
    expected: 'connection closed',
  },
  { name: 'never answers', misbehave: ['silence'], expected: 'no answer in time' },
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
