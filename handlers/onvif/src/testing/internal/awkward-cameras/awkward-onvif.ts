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
    name: 'lacks its clock',
    misbehave: ['fault', ['GetSystemDateAndTime']],
    expected: 'offered none',
  },
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
    name: 'wants a credential for its clock too',
    options: () => ({ ...isClosed, authentication: ['username-token'] }),
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
    name: 'wants a digest for each call',
    options: () => ({ ...isClosed, authentication: ['http-digest'] }),
    as: credential,
    expected: 'offered accepted',
  },
  {
    name: 'wants a digest for each call, and there is no credential',
    options: () => ({ ...isClosed, authentication: ['http-digest'] }),
    expected: 'HTTP status 401',
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
    name: 'wants a credential by a fault, and there is none',
    options: () => ({ ...isClosed, authentication: ['username-token'] }),
    expected: 'offered required',
  },
  {
    name: 'wants a credential by a fault of SOAP 1.1',
    misbehave: ['fault-of-soap-1.1'],
    expected: 'offered required',
  },
  {
    name: 'refuses a password by a fault',
    options: () => ({ credential, authentication: ['username-token'] }),
    as: wrong,
    expected: 'offered refused',
  },
  {
    name: 'refuses a password by 401 with another fault',
    options: () => ({
      credential,
      authentication: ['username-token'],
      refusal: { status: 401, subcode: 'InvalidArgVal' },
    }),
    as: wrong,
    expected: 'offered refused',
  },
  {
    name: 'refuses a password by 400 with a bare fault',
    options: () => ({ credential, authentication: ['username-token'], refusal: { status: 400 } }),
    as: wrong,
    expected: 'offered refused',
  },
  {
    name: 'refuses a password by 403',
    options: () => ({
      credential,
      authentication: ['username-token'],
      refusal: { status: 403, subcode: 'OperationProhibited' },
    }),
    as: wrong,
    expected: 'offered refused',
  },
  {
    name: 'has no time for a call with a credential yet',
    options: () => ({ credential }),
    misbehave: [page(503), ['GetDeviceInformation']],
    as: credential,
    expected: 'offered none',
  },
  {
    name: 'wants a digest for each call, and has no time for it yet',
    options: () => ({ ...isClosed, authentication: ['http-digest'] }),
    misbehave: [page(503)],
    as: credential,
    expected: 'busy',
  },
  {
    name: 'asks for a new digest without end',
    options: () => ({ credential, authentication: ['http-digest'] }),
    misbehave: ['endless-challenge', ['GetDeviceInformation']],
    as: credential,
    expected: 'offered refused',
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
    name: 'fails to tell what it is',
    misbehave: ['server-error', ['GetDeviceInformation']],
    expected: 'offered none',
  },
  {
    name: 'fails to tell its network',
    misbehave: ['closed-connection', ['GetNetworkInterfaces']],
    expected: 'offered none',
  },
  {
    name: 'tells control characters and lines',
    options: () => ({ identity: { model: 'x\n\u202e'.repeat(500), serialNumber: '' } }),
    expected: 'offered none',
  },
]
