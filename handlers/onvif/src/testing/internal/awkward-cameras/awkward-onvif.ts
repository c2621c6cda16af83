import {
  type AwkwardCamera,
  credential,
  isClosed,
  page,
  replacing,
  wrong,
} from './awkward-camera.js'

export const ONVIF: readonly AwkwardCamera[] = [
  {
    name: 'tells the local time only',
    options: () => ({
      ...isClosed,
      openOperations: ['GetSystemDateAndTime'],
      authentication: ['username-token'],
      clockOffsetMs: -86_400_000,
    }),
    misbehave: [replacing(/UTCDateTime/g, 'LocalDateTime'), ['GetSystemDateAndTime']],
    as: credential,
    expected: 'offered accepted',
  },
  {
    name: 'has a clock that is 20 years behind',
    options: () => ({
      credential,
      authentication: ['username-token'],
      clockOffsetMs: -20 * 365 * 86_400_000,
    }),
    as: credential,
    expected: 'offered accepted',
  },
  {
    name: 'wants a credential for its clock too, which is 20 years behind',
    options: () => ({
      ...isClosed,
      authentication: ['username-token'],
      clockOffsetMs: -20 * 365 * 86_400_000,
    }),
    as: credential,
    expected: 'offered accepted',
  },
  {
    name: 'wants a digest for each call, and the password is wrong',
    options: () => ({ ...isClosed, authentication: ['http-digest'] }),
    as: wrong,
    expected: 'credential refused',
  },
  {
    name: 'wants the basic scheme',
    misbehave: ['basic-challenge'],
    as: credential,
    expected: 'credential refused',
  },
  {
    name: 'takes MD5 only, and each nonce once',
    options: () => ({
      credential,
      authentication: ['http-digest'],
      algorithms: ['MD5'],
      nonceUses: 1,
    }),
    as: credential,
    expected: 'offered accepted',
  },
  {
    name: 'wants a credential by a fault of SOAP 1.1',
    misbehave: ['fault-of-soap-1.1'],
    expected: 'offered required',
  },
  {
    name: 'wants a digest for each call, and has no time for it yet',
    options: () => ({ ...isClosed, authentication: ['http-digest'] }),
    misbehave: [page(503)],
    as: credential,
    expected: 'busy',
  },
  {
    name: 'has a password that ends in a line break in its Secret',
    options: () => ({ credential }),
    as: { ...credential, password: `${credential.password}\n` },
    expected: 'offered accepted',
  },
  {
    name: 'is older than GetServices',
    options: () => ({ hasGetServices: false }),
    expected: 'offered none',
  },
  {
    name: 'tells control characters and lines',
    options: () => ({ identity: { model: 'x\n\u202e'.repeat(500), serialNumber: '' } }),
    expected: 'offered none',
  },
]
