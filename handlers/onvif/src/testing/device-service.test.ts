import { createRequire } from 'node:module'
import { Cam, type CamOptions } from 'onvif'
import { describe, expect, it } from 'vitest'
import { usernameToken } from '../device/username-token.js'
import { parseXml } from '../xml/xml.js'
import { soapEnvelope } from './device-replies.js'
import { DeviceService } from './device-service.js'
import { SNAPSHOT } from './snapshot.js'

const credential = { username: 'operator', password: 'correct horse' }

/** The part of node-onvif that the tests use; the package has no types. */
interface NodeOnvif {
  readonly OnvifDevice: new (
    options: Readonly<Record<'xaddr' | 'user' | 'pass', string>>,
  ) => {
    init(): Promise<Readonly<Record<string, string>>>
    getProfileList(): readonly {
      readonly token: string
      readonly snapshot: string
      readonly stream: Readonly<Record<string, string>>
    }[]
    fetchSnapshot(): Promise<{
      readonly headers: Readonly<Record<string, string>>
      readonly body: Buffer
    }>
  }
}
const nodeOnvif: NodeOnvif = createRequire(import.meta.url)('node-onvif')

/** Connects the npm package onvif. */
function connect(camera: DeviceService, options: Partial<CamOptions> = {}): Promise<Cam> {
  return new Promise((resolve, reject) => {
    const cam = new Cam(
      { hostname: '127.0.0.1', port: camera.port, timeout: 20_000, ...credential, ...options },
      (error) => (error ? reject(error) : resolve(cam)),
    )
  })
}

const result = <T>(ask: (callback: (error: Error | null, value?: T) => void) => void) =>
  new Promise<T | undefined>((resolve, reject) =>
    ask((error, value) => (error ? reject(error) : resolve(value))),
  )

describe('a simulated camera', () => {
  it.each([
    ['by UsernameToken', { authentication: ['username-token'] }, {}],
    ['by HTTP digest', { authentication: ['http-digest'] }, { useWSSecurity: false }],
    [
      'by HTTP digest with MD5',
      { authentication: ['http-digest'], algorithms: ['MD5'] },
      { useWSSecurity: false },
    ],
    ['with media 1', { media: [1] }, {}],
    ['with media 2', { media: [2] }, {}],
    ['that has GetCapabilities', { hasGetServices: false }, {}],
    ['with a clock that is behind', { clockOffsetMs: -86_400_000 }, {}],
  ] as const)('works with npm onvif: %s', async (_how, options, client) => {
    await using camera = await DeviceService.start({ credential, ...options })
    const cam = await connect(camera, client)
    const information = await result((callback) => cam.getDeviceInformation(callback))
    expect(information).toMatchObject({
      manufacturer: 'Akri',
      model: 'Simulated camera',
      hardwareId: 'simulated',
    })
    expect(cam.profiles?.map((profile) => profile.$.token)).toEqual(['main', 'sub'])
    expect(
      await result((callback) =>
        cam.getStreamUri({ protocol: 'RTSP', profileToken: 'sub' }, callback),
      ),
    ).toMatchObject({
      uri: 'rtsp://127.0.0.1:554/sub',
    })
    expect(
      await result((callback) => cam.getSnapshotUri({ profileToken: 'main' }, callback)),
    ).toMatchObject({
      uri: `http://127.0.0.1:${camera.port}/snapshot/main`,
    })
    expect(cam.activeSource).toMatchObject({ profileToken: 'main' })
  })

  it('refuses npm onvif with another password', async () => {
    await using camera = await DeviceService.start({
      credential,
      authentication: ['username-token'],
    })
    const cam = await connect(camera, { password: 'another' })
    await expect(result((callback) => cam.getDeviceInformation(callback))).rejects.toThrow(
      'Sender not authorized',
    )
  })

  it('works with npm node-onvif, and sends it a picture', async () => {
    await using camera = await DeviceService.start({ credential })
    const device = new nodeOnvif.OnvifDevice({
      xaddr: camera.url,
      user: credential.username,
      pass: credential.password,
    })
    expect(await device.init()).toMatchObject({
      Manufacturer: 'Akri',
      SerialNumber: '00000000000000000001',
      FirmwareVersion: '1.10',
    })
    expect(device.getProfileList()).toMatchObject([
      {
        token: 'main',
        snapshot: `http://127.0.0.1:${camera.port}/snapshot/main`,
        stream: { rtsp: 'rtsp://127.0.0.1:554/main' },
      },
      { token: 'sub' },
    ])
    const { headers, body } = await device.fetchSnapshot()
    expect([headers['content-type'], body.equals(SNAPSHOT)]).toEqual(['image/jpeg', true])
  })

  it('refuses a token that is old, used, of another password, or in plain text', async () => {
    await using camera = await DeviceService.start({
      credential,
      authentication: ['username-token'],
    })
    const ask = async (header: string) => {
      const envelope = soapEnvelope('<tds:GetScopes/>')
        .replace('<SOAP-ENV:Body>', `<SOAP-ENV:Header>${header}</SOAP-ENV:Header><SOAP-ENV:Body>`)
        .replace(
          '<SOAP-ENV:Envelope',
          '<SOAP-ENV:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"',
        )
      const reply = await fetch(camera.url, { method: 'POST', body: envelope })
      const content = parseXml(await reply.text()).find('Body')?.children[0]
      return [reply.status, content?.textOf('Code', 'Subcode', 'Value') ?? content?.name]
    }
    const token = usernameToken(credential, Date.now())
    expect(await ask(token)).toEqual([200, 'GetScopesResponse'])
    const refused = [400, 'ter:NotAuthorized']
    expect(await ask(token)).toEqual(refused)
    expect(await ask(usernameToken(credential, Date.now() - 60_000))).toEqual(refused)
    expect(await ask(usernameToken({ ...credential, password: 'another' }, Date.now()))).toEqual(
      refused,
    )
    expect(await ask(usernameToken({ ...credential, username: 'another' }, Date.now()))).toEqual(
      refused,
    )
    const shown = usernameToken(credential, Date.now()).replace(
      /<Password .*<\/Password>/,
      `<Password>${credential.password}</Password>`,
    )
    expect(await ask(shown)).toEqual(refused)
    expect(await ask('')).toEqual(refused)
  })

  it('survives invalid requests', async () => {
    await using camera = await DeviceService.start()
    const post = async (body: string) => (await fetch(camera.url, { method: 'POST', body })).status
    expect(await post('<no xml')).toBe(400)
    expect(await post(soapEnvelope('<tds:Unknown/>'))).toBe(500)
    await expect(post('x'.repeat(100_000))).rejects.toThrow()
    expect((await fetch(new URL('/snapshot/%00', camera.url))).status).toBe(404)
    expect(
      (await fetch(new URL('/snapshot/%', camera.url)).catch(() => undefined))?.status,
    ).not.toBe(200)
    expect(await post(soapEnvelope('<tds:GetScopes/>'))).toBe(200)
  })
})
