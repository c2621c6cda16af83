import { X509Certificate } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Certificates, planCertificates } from './certificate-plan.js'
import { issueAuthority, issueServerCertificate } from './x509.js'

const HOUR = 60 * 60_000
const DAY = 24 * HOUR
// Certificates have whole seconds.
const BEGIN = Date.parse('2026-01-01T00:00:00Z')
const names = ['akri-webhook.akri.svc', '10.99.0.1'] as const

/** How long before its creation a certificate is valid. */
const BACKDATED = DAY
/** Each authority is announced, and each certificate seen, as soon as it is made. */
const ageAt = (now: number) => (cert: string) =>
  now - Date.parse(new X509Certificate(cert).validFrom) - BACKDATED
const plan = (
  stored: Partial<Certificates>,
  now: number,
  wanted: readonly [string, ...string[]] = [...names],
) =>
  planCertificates(stored, {
    now,
    names: wanted,
    announcedForMs: ageAt(now),
    servedForMs: ageAt(now),
  })
const isTrusted = (cert: string, authorities: readonly string[]) =>
  authorities.some((authority) =>
    new X509Certificate(cert).verify(new X509Certificate(authority).publicKey),
  )

const first = await plan({}, BEGIN)
const other = await plan({}, BEGIN)
const expired = await plan({}, BEGIN - 400 * DAY)

describe('the certificates of the webhook', () => {
  it('are issued for all names if there are none, and stay while they are valid', async () => {
    const { authorities, server } = first.certificates
    expect(authorities).toHaveLength(1)
    expect(isTrusted(server.cert, authorities)).toBe(true)
    const read = new X509Certificate(server.cert)
    expect([read.checkHost(names[0]), read.checkIP(names[1])]).toEqual([...names])
    expect(first.nextAt).toBe(BEGIN - BACKDATED + 60 * DAY)
    expect(await plan(first.certificates, first.nextAt - 1)).toEqual(first)
  })

  it('are renewed after two thirds of their life, by the same authority', async () => {
    const next = await plan(first.certificates, first.nextAt)
    expect(next.certificates.authorities).toEqual(first.certificates.authorities)
    expect(next.certificates.server.cert).not.toBe(first.certificates.server.cert)
    expect(next.nextAt).toBe(first.nextAt - BACKDATED + 60 * DAY)
  })

  it('change their authority in steps: announced before use, and kept for an hour', async () => {
    const due = BEGIN - BACKDATED + 240 * DAY
    // What is served is not due at the same time.
    const server = await issueServerCertificate(
      [...names],
      { notBefore: new Date(due - DAY), notAfter: new Date(due + 60 * DAY) },
      {
        cert: first.certificates.authorities[0] ?? '',
        key: first.certificates.authorityKey,
      },
    )
    const before = { ...first.certificates, server }
    expect(await plan(before, due - 1)).toEqual({ certificates: before, nextAt: due })

    const announced = await plan(before, due)
    expect(announced.certificates.server).toEqual(server)
    expect(announced.certificates.authorities).toEqual([
      expect.not.stringContaining(before.authorities[0] ?? ''),
      ...before.authorities,
    ])
    expect(announced.nextAt).toBe(due + 20_000)
    expect(await plan(announced.certificates, announced.nextAt - 1)).toEqual(announced)

    const used = await plan(announced.certificates, announced.nextAt)
    expect(used.certificates.authorities).toEqual(announced.certificates.authorities)
    expect(
      isTrusted(used.certificates.server.cert, used.certificates.authorities.slice(0, 1)),
    ).toBe(true)
    expect(used.nextAt).toBe(announced.nextAt + HOUR)
    expect(await plan(used.certificates, used.nextAt - 1)).toEqual(used)

    const forgotten = await plan(used.certificates, used.nextAt)
    expect(forgotten.certificates).toEqual({
      ...used.certificates,
      authorities: used.certificates.authorities.slice(0, 1),
    })
  })

  it('keep the old authority for an hour from the first sight of the new certificate', async () => {
    const { authorityKey: _lost, ...rest } = first.certificates
    const announced = await plan(rest, BEGIN + DAY)
    const used = await plan(announced.certificates, announced.nextAt)
    expect(used.certificates.authorities).toHaveLength(2)
    // The clock of this replica is hours ahead of that of the replica that made the certificate.
    const now = announced.nextAt + 9 * HOUR
    const options = { now, names: [...names] as const, announcedForMs: () => 0 }
    for (const [ms, count] of [
      [0, 2],
      [HOUR - 1, 2],
      [HOUR, 1],
    ] as const)
      expect(
        (await planCertificates(used.certificates, { ...options, servedForMs: () => ms }))
          .certificates.authorities,
      ).toHaveLength(count)
  })

  it('are valid also for an API server whose clock is hours behind', () => {
    for (const cert of [first.certificates.server.cert, ...first.certificates.authorities])
      expect(Date.parse(new X509Certificate(cert).validFrom)).toBeLessThan(BEGIN - 12 * HOUR)
  })

  it('wait for the announcement of an authority, as long as they are valid', async () => {
    const { authorityKey: _lost, ...rest } = first.certificates
    const options = {
      names: [...names] as [string, ...string[]],
      announcedForMs: () => undefined,
      servedForMs: () => 0,
    }
    const { certificates } = await planCertificates(rest, { ...options, now: BEGIN + DAY })
    const after = async (days: number) => {
      const now = BEGIN - BACKDATED + days * DAY
      return (await planCertificates(certificates, { ...options, now })).certificates
    }
    expect(await after(89)).toEqual(certificates)
    const late = await after(90)
    expect(late.server).not.toEqual(certificates.server)
    expect(late.authorities).toEqual(certificates.authorities)
  })

  it('change their authority in the same steps if its key is lost', async () => {
    const { authorityKey: _lost, ...rest } = first.certificates
    const next = await plan(rest, BEGIN + DAY)
    expect(next.certificates.server).toEqual(first.certificates.server)
    expect(next.certificates.authorities.slice(1)).toEqual(first.certificates.authorities)
  })

  it('are issued at once if a name is missing, and for the old names too', async () => {
    const next = await plan(first.certificates, BEGIN + DAY, ['other.akri.svc'])
    const read = new X509Certificate(next.certificates.server.cert)
    expect([read.checkHost('other.akri.svc'), read.checkIP(names[1])]).toEqual([
      'other.akri.svc',
      names[1],
    ])
    // So that replicas of two versions do not take them from one another.
    expect((await plan(next.certificates, BEGIN + DAY)).certificates).toEqual(next.certificates)
  })

  it.each<[string, Partial<Certificates>]>([
    ['has run out', expired.certificates],
    ['is nonsense', { authorities: ['x'], authorityKey: 'y', server: { cert: 'z', key: '' } }],
    [
      'has another key',
      {
        ...first.certificates,
        server: { ...first.certificates.server, key: first.certificates.authorityKey },
      },
    ],
    [
      'is of an authority that nobody trusts',
      { ...first.certificates, authorities: other.certificates.authorities },
    ],
  ])('are issued at once if the content of the Secret %s', async (_what, stored) => {
    const { certificates, nextAt } = await plan(stored, BEGIN)
    expect(isTrusted(certificates.server.cert, certificates.authorities)).toBe(true)
    expect(certificates.server).not.toEqual(stored.server)
    expect(nextAt).toBeGreaterThan(BEGIN)
  })

  it('do not accept a certificate of a server as an authority', async () => {
    const { server, authorities, authorityKey } = first.certificates
    const { certificates } = await plan(
      { authorities: [server.cert, ...authorities], authorityKey, server },
      BEGIN,
    )
    expect(certificates.authorities).not.toContain(server.cert)
  })

  it('are trusted at any time, also by API servers that do not know the last step', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 60 * DAY }), { minLength: 1, maxLength: 12 }),
        async (pauses) => {
          let now = BEGIN
          let { certificates, nextAt } = first
          for (const pause of pauses) {
            // Never later than planned; how much earlier is any.
            now = Math.max(now + 1, Math.min(now + pause, nextAt))
            const next = await plan(certificates, now)
            const { server, authorities } = next.certificates
            expect(isTrusted(server.cert, authorities)).toBe(true)
            // What others may still serve, or still trust.
            expect(isTrusted(certificates.server.cert, authorities)).toBe(true)
            expect(isTrusted(server.cert, certificates.authorities)).toBe(true)
            expect(Date.parse(new X509Certificate(server.cert).validTo)).toBeGreaterThan(
              now + 20 * DAY,
            )
            expect(next.nextAt).toBeGreaterThan(now)
            certificates = next.certificates
            nextAt = next.nextAt
          }
        },
      ),
      { numRuns: 15 },
    )
  })
})

it('a trusted authority has not expired', async () => {
  const old = await issueAuthority('akri-webhook', {
    notBefore: new Date(BEGIN - 9 * DAY),
    notAfter: new Date(BEGIN),
  })
  const { certificates } = await plan(
    { ...first.certificates, authorities: [...first.certificates.authorities, old.cert] },
    BEGIN,
  )
  expect(certificates.authorities).toEqual(first.certificates.authorities)
})
