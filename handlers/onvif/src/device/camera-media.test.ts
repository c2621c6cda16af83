import { describe, expect, it } from 'vitest'
import { DeviceService, type DeviceServiceOptions } from '../testing/device-service.js'
import { credential, INFORMATION, policy, query } from '../testing/internal/camera-query.js'

describe('the media services of a camera', () => {
  const options = { mediaProfiles: true }
  const profiles = (origin: string) =>
    ['main', 'sub'].map((token) => ({
      token,
      name: token,
      streamUri: `rtsp://127.0.0.1:554/${token}`,
      snapshotUri: `${origin}/snapshot/${token}`,
    }))

  it.each([
    ['2', { media: [2] }, 'http://www.onvif.org/ver20/media/wsdl'],
    ['1', { media: [1] }, 'http://www.onvif.org/ver10/media/wsdl'],
    ['2 rather than 1', {}, 'http://www.onvif.org/ver20/media/wsdl'],
    [
      '1, known by GetCapabilities',
      { hasGetServices: false },
      'http://www.onvif.org/ver10/media/wsdl',
    ],
  ] satisfies [string, DeviceServiceOptions, string][])(
    'tell profiles, streams and snapshots: media %s',
    async (_version, service, namespace) => {
      await using camera = await DeviceService.start({ credential, ...service })
      const facts = await query(camera.url, { as: credential, options })
      expect(facts.profiles).toEqual(profiles(new URL(camera.url).origin))
      expect(camera.requests.find(({ operation }) => operation === 'GetProfiles')?.body).toContain(
        namespace,
      )
    },
  )

  it('are not called without mediaProfiles', async () => {
    await using camera = await DeviceService.start({ credential })
    expect((await query(camera.url, { as: credential })).profiles).toBeUndefined()
  })

  it('are media 1 if media 2 does not answer', async () => {
    await using camera = await DeviceService.start({ credential })
    camera.misbehave('fault', ['GetProfiles'])
    expect((await query(camera.url, { as: credential, options })).profiles).toBeUndefined()
    const asked = camera.requests
      .filter(({ operation }) => operation === 'GetProfiles')
      .map(({ body }) => /ver\d0/.exec(body)?.[0])
    expect(asked).toEqual(['ver20', 'ver10'])
  })

  it('are not called outside of the allowed networks, nor are their URIs used', async () => {
    await using elsewhere = await DeviceService.start({ address: '127.0.0.2' })
    const origin = new URL(elsewhere.url).origin
    await using camera = await DeviceService.start({ credential, origin })
    const url = `http://127.0.0.1:${camera.port}/onvif/device_service`
    const facts = await query(url, {
      as: credential,
      options: { ...options, policy: policy('127.0.0.1') },
    })
    expect(facts).toMatchObject({ authentication: 'accepted', ...INFORMATION })
    expect(facts.profiles).toBeUndefined()
    expect(facts.unreachable).toEqual(['media service: 127.0.0.2 is not in the allowed networks'])
    expect(elsewhere.requests).toEqual([])
  })

  it('that cannot be reached are told, as are streams and snapshots', async () => {
    const closed = await DeviceService.start()
    const { port } = closed
    await closed.close()
    await using camera = await DeviceService.start()
    const answering = (operation: string, from: string | RegExp, to: string) =>
      camera.misbehave(
        { answer: (response, correct) => response.end(correct.replaceAll(from, to)) },
        [operation],
      )
    const read = () => query(camera.url, { options })
    answering('GetServices', `:${camera.port}/`, `:${port}/`)
    const silent = await read()
    expect(silent).toMatchObject(INFORMATION)
    expect(silent.unreachable).toEqual([expect.stringMatching(/^media service: .*ECONNREFUSED/)])
    expect([silent.profiles, silent.incomplete]).toEqual([undefined, undefined])
    // The other media service answers.
    answering('GetServices', `:${camera.port}/onvif/media2`, `:${port}/onvif/media2`)
    const answered = await read()
    expect(answered.profiles).toEqual(profiles(new URL(camera.url).origin))
    expect(answered.unreachable).toBeUndefined()
    for (const [operation, what] of [
      ['GetStreamUri', 'stream'],
      ['GetSnapshotUri', 'snapshot'],
    ] as const)
      for (const [uri, reason] of [
        ['$1//192.168.1.10/a?password=b', '192.168.1.10 is not in the allowed networks'],
        ['ftp://192.168.1.10/a?password=b', '"ftp://192.168.1.10/" does not start with'],
        ['nowhere', '"nowhere" is not the URL of a service'],
      ] as const) {
        answering(operation, /(rtsp:|http:)\/\/127[^<]*/g, uri)
        const facts = await read()
        expect(facts.unreachable).toEqual([expect.stringContaining(`${what}: ${reason}`)])
        expect(facts.profiles).toHaveLength(2)
        expect(facts.incomplete).toBeUndefined()
      }
  })

  it.each(['127.0.0.1', '0.0.0.0', 'localhost', 'LOCALHOST', '[::1]', '[::]'])(
    'are at the camera if their URLs have the host %s',
    async (host) => {
      await using camera = await DeviceService.start({ address: '127.0.0.2', credential })
      camera.misbehave({
        answer: (response, correct) => response.end(correct.replaceAll('//127.0.0.2', `//${host}`)),
      })
      const facts = await query(camera.url, {
        as: credential,
        options: { ...options, policy: policy('127.0.0.2') },
      })
      const expected = profiles(new URL(camera.url).origin)
      expect(facts.profiles).toEqual(
        expected.map((each) => ({
          ...each,
          streamUri: each.streamUri.replace('127.0.0.1', '127.0.0.2'),
        })),
      )
      expect(facts.unreachable).toBeUndefined()
    },
  )

  it('get no credential at another address than the camera', async () => {
    await using elsewhere = await DeviceService.start({ address: '127.0.0.2', credential })
    await using camera = await DeviceService.start({
      credential,
      origin: new URL(elsewhere.url).origin,
    })
    const facts = await query(`http://127.0.0.1:${camera.port}/onvif/device_service`, {
      as: credential,
      options,
    })
    expect(facts).toMatchObject({ authentication: 'accepted', ...INFORMATION })
    expect(elsewhere.requests.map(({ operation }) => operation)).toEqual([
      'GetProfiles',
      'GetProfiles',
    ])
    for (const { headers, body } of elsewhere.requests) {
      expect(headers.authorization).toBeUndefined()
      expect(body).not.toContain('Username')
    }
  })

  it('lose a URI with a password', async () => {
    const secret = { username: 'operator', password: 'hunter2' }
    await using camera = await DeviceService.start({
      credential: secret,
      identity: { profiles: ['main', 'a-hunter2', 'a-%68unter2'] },
    })
    const found = (await query(camera.url, { as: secret, options })).profiles
    expect(found?.map(({ token, streamUri }) => [token, streamUri !== undefined])).toEqual([
      ['main', true],
      ['a-hunter2', false],
      ['a-%68unter2', false],
    ])
  })
})
