import { describe, expect, it } from 'vitest'
import { admissionOf } from './admission.js'

const DOOR = { port: 4000, token: 'the-token' }
const COOKIE = 'akri-4000=the-token'

interface VisitOptions {
  readonly method?: string
  readonly given?: string
  readonly takesPost?: boolean
  readonly headers?: Readonly<Record<string, string>>
}

function visit({ method = 'GET', given, takesPost = false, headers = {} }: VisitOptions) {
  const all = { host: '127.0.0.1:4000', ...headers }
  return admissionOf({ method, given: given ?? null, headers: all, takesPost }, DOOR)
}

const kindOf = (options: VisitOptions) => visit(options).kind

describe('the page of an agent', () => {
  it('welcomes a visitor with the token, and gives a cookie that other sites cannot use', () => {
    const cookie = 'akri-4000=the-token; HttpOnly; SameSite=Strict; Path=/'
    expect(visit({ given: 'the-token' })).toEqual({ kind: 'welcome', cookie })
  })

  it('admits a visitor with the cookie', () => {
    expect(kindOf({ headers: { cookie: COOKIE } })).toBe('admitted')
    expect(kindOf({ headers: { cookie: `other=1; ${COOKIE}; more=2` } })).toBe('admitted')
  })

  it.each([
    ['nothing', {}],
    ['a wrong token', { given: 'the-tokem' }],
    ['an empty token', { given: '' }],
    ['a part of the token', { given: 'the' }],
    ['a wrong token beside the cookie', { given: 'x', headers: { cookie: COOKIE } }],
    ['a wrong cookie', { headers: { cookie: 'akri-4000=the' } }],
    ['the cookie of another port', { headers: { cookie: 'akri-4001=the-token' } }],
    ['a cookie whose name ends as ours', { headers: { cookie: 'xakri-4000=the-token' } }],
  ])('refuses a visitor with %s, and says where the address is', (_, options) => {
    expect(visit(options)).toMatchObject({ kind: 'refused', status: 403 })
    expect(visit(options)).toMatchObject({ reason: expect.stringMatching(/akri prints/) })
  })

  it.each(['127.0.0.1:4000', 'localhost:4000', '[::1]:4000'])('is there as %s', (host) => {
    expect(kindOf({ headers: { host, cookie: COOKIE } })).toBe('admitted')
  })

  it.each(['evil.example:4000', '127.0.0.1', '127.0.0.1:4001', '127.0.0.1:4000.evil.example', ''])(
    'refuses the host %j: a name of others can resolve to this machine',
    (host) => {
      expect(kindOf({ headers: { host, cookie: COOKIE } })).toBe('refused')
      expect(kindOf({ headers: { host }, given: 'the-token' })).toBe('refused')
    },
  )

  it.each(['http://evil.example', 'http://127.0.0.1:4001', 'https://127.0.0.1:4000', 'null'])(
    'refuses the origin %s',
    (origin) => {
      expect(kindOf({ headers: { origin, cookie: COOKIE } })).toBe('refused')
      expect(kindOf({ headers: { origin }, given: 'the-token' })).toBe('refused')
    },
  )

  it('admits its own origin', () => {
    const headers = { origin: 'http://127.0.0.1:4000', cookie: COOKIE }
    expect(kindOf({ headers })).toBe('admitted')
  })

  it.each([
    ['same-origin', 'admitted'],
    ['none', 'admitted'],
    ['same-site', 'refused'],
    ['cross-site', 'refused'],
  ])('for a request that a browser calls %s: %s', (site, kind) => {
    expect(kindOf({ headers: { 'sec-fetch-site': site, cookie: COOKIE } })).toBe(kind)
  })

  it.each(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD'])('refuses %s', (method) => {
    const refused = { kind: 'refused', status: 405 }
    expect(visit({ method, headers: { cookie: COOKIE } })).toMatchObject(refused)
  })

  const POST = {
    cookie: COOKIE,
    origin: 'http://127.0.0.1:4000',
    'content-type': 'application/json',
    'sec-fetch-site': 'same-origin',
  }
  const post = (headers: VisitOptions['headers'], takesPost = true) =>
    kindOf({ method: 'POST', takesPost, headers: { ...POST, ...headers } })

  it('admits data of this page, at the paths that take data', () => {
    expect(post({})).toBe('admitted')
    expect(post({}, false)).toBe('refused')
    expect(kindOf({ method: 'PUT', takesPost: true, headers: POST })).toBe('refused')
  })

  it.each([
    ['no cookie', { cookie: '' }],
    ['another origin', { origin: 'http://127.0.0.1:4001' }],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['a form of texts', { 'content-type': 'text/plain' }],
    ['another site', { 'sec-fetch-site': 'same-site' }],
    ['another host', { host: 'evil.example:4000' }],
  ])('refuses data with %s', (_, headers) => {
    expect(post(headers)).toBe('refused')
  })

  it('refuses data without an origin: each browser sends one', () => {
    const { origin: _, ...headers } = POST
    expect(kindOf({ method: 'POST', takesPost: true, headers })).toBe('refused')
  })
})

describe('the page behind a proxy', () => {
  const hosts = ['devices.example.com', 'devices.example.com:8443']
  const behindProxy = (headers: Readonly<Record<string, string>>, method = 'GET') => {
    const all = { host: 'devices.example.com', ...headers }
    return admissionOf({ method, given: null, headers: all }, { hosts }).kind
  }

  it.each([...hosts, 'Devices.Example.com'])('admits visitors of %s without a token', (host) => {
    expect(behindProxy({ host })).toBe('admitted')
  })

  it.each(['', 'evil.example', 'devices.example.com:80', '127.0.0.1:4000', 'xdevices.example.com'])(
    'refuses the host %j: a name of others can resolve to the address of the page',
    (host) => expect(behindProxy({ host })).toBe('refused'),
  )

  it.each([
    ['https://devices.example.com', 'admitted'],
    ['http://devices.example.com:8443', 'admitted'],
    ['https://evil.example', 'refused'],
    ['null', 'refused'],
  ])('for the origin %s: %s', (origin, kind) => {
    expect(behindProxy({ origin })).toBe(kind)
  })

  const from = (site: string, mode: string, dest: string) =>
    behindProxy({ 'sec-fetch-site': site, 'sec-fetch-mode': mode, 'sec-fetch-dest': dest })

  it('admits a link of another site, and the way back from a page that signs in', () => {
    expect(from('cross-site', 'navigate', 'document')).toBe('admitted')
    expect(from('same-origin', 'cors', 'empty')).toBe('admitted')
  })

  it.each([
    ['cross-site', 'navigate', 'iframe'],
    ['cross-site', 'no-cors', 'script'],
    ['same-site', 'cors', 'empty'],
  ])('gives a page that is %s nothing in the mode %s as %s', (...request) => {
    expect(from(...request)).toBe('refused')
  })

  it('answers GET only', () => {
    expect(behindProxy({}, 'POST')).toBe('refused')
  })
})
