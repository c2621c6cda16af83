import { createPrivateKey, X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import type { KeyPair, Validity } from './x509.js'

/** The content of the Secret that the replicas share. */
export interface Certificates {
  /** The certificates of trusted authorities, the newest first. PEM. */
  readonly authorities: readonly string[]
  /** The key of the newest authority. */
  readonly authorityKey: string
  /** The certificate that the replicas serve. */
  readonly server: KeyPair
}

interface CertificatePlan {
  readonly certificates: Certificates
  /** The time of the next step, in milliseconds since the epoch. */
  readonly nextAt: number
}

interface PlanOptions {
  /** By the machine's clock: API servers compare a certificate with theirs. */
  readonly now: number
  /** The names that the certificate must have. */
  readonly names: readonly [string, ...string[]]
  /**
   * For how long this replica has seen an authority in the registration, in milliseconds; undefined
   * if it is missing there. The caller asks for another plan after an authority came or went.
   */
  announcedForMs(authority: string): number | undefined
  /** For how long this replica has seen the served certificate, in milliseconds. */
  servedForMs(cert: string): number
}

const HOUR_MS = 60 * 60_000
const DAY_MS = 24 * HOUR_MS
/** How long certificates are valid. Each is replaced long before its end. */
const AUTHORITY_MS = 360 * DAY_MS
const SERVER_MS = 90 * DAY_MS
/** Certificates are valid from a time before their creation: clocks differ, also by hours. */
const BACKDATED_MS = DAY_MS
/**
 * The time that API servers have to learn of a new authority, before a certificate of that
 * authority is served.
 */
const SETTLE_MS = 20_000
/**
 * An authority is trusted for this time after its last certificate was replaced: replicas take a
 * new one over in seconds.
 */
const OVERLAP_MS = HOUR_MS
/**
 * The most names: replicas of two versions may need different names, and the certificate has the
 * names of both.
 */
const MAX_NAMES = 20
const MAX_AUTHORITIES = 4

const AUTHORITY_NAME = 'akri-webhook'

interface Authority {
  readonly cert: string
  readonly read: X509Certificate
}

/** An authority with its key. */
interface Signer extends Authority {
  readonly key: string
}

/**
 * The certificates that should be in force now. Each certificate is renewed after two thirds of
 * its life. A new authority is announced first. After it has settled, the new authority issues the
 * served certificate. The old authority is removed an hour later. So the served certificate is
 * trusted at any time, also the certificate before. Only if there is no usable certificate, a new
 * authority issues at once.
 *
 * @param stored the content of the Secret; unusable parts are replaced
 */
export async function planCertificates(
  stored: Partial<Certificates>,
  { now, names, announcedForMs, servedForMs }: PlanOptions,
): Promise<CertificatePlan> {
  const trusted = (stored.authorities ?? []).flatMap((cert) => readAuthority(cert, now))
  const signer = currentSigner(trusted[0], stored.authorityKey, now) ?? (await newSigner(now))
  const authorities = [signer, ...trusted.filter(({ cert }) => cert !== signer.cert)].slice(
    0,
    MAX_AUTHORITIES,
  )
  const served = usableServer(stored.server, authorities, names, now)
  const settledAt = now + SETTLE_MS - (announcedForMs(signer.cert) ?? -Infinity)
  if (served !== undefined && !isIssuedBy(served.read, signer) && now < settledAt) {
    return plan(
      authorities,
      signer,
      served.pair,
      Math.min(settledAt, renewalAt(signer.read), Date.parse(served.read.validTo)),
    )
  }
  const isGood =
    served !== undefined && isIssuedBy(served.read, signer) && now < renewalAt(served.read)
  const server = isGood ? served.pair : await newServer(stored.server, names, signer, now)
  const read = isGood ? served.read : new X509Certificate(server.cert)
  const removeAt = now + OVERLAP_MS - servedForMs(server.cert)
  const renewAt = Math.min(renewalAt(signer.read), renewalAt(read))
  if (authorities.length === 1 || now >= removeAt) return plan([signer], signer, server, renewAt)
  return plan(authorities, signer, server, Math.min(renewAt, removeAt))
}

function plan(
  authorities: readonly Authority[],
  signer: Signer,
  server: KeyPair,
  nextAt: number,
): CertificatePlan {
  return {
    certificates: {
      authorities: authorities.map(({ cert }) => cert),
      authorityKey: signer.key,
      server,
    },
    nextAt,
  }
}

/** The authority; empty if the certificate is no authority or has expired. */
function readAuthority(cert: string, now: number): Authority[] {
  const read = readCertificate(cert)
  return read?.ca === true && now < Date.parse(read.validTo)
    ? [{ cert: read.toString(), read }]
    : []
}

function currentSigner(
  newest: Authority | undefined,
  key: string | undefined,
  now: number,
): Signer | undefined {
  return newest && key && isKeyOf(newest.read, key) && now < renewalAt(newest.read)
    ? { ...newest, key }
    : undefined
}

async function newSigner(now: number): Promise<Signer> {
  const { issueAuthority } = await import('./x509.js')
  const authority = await issueAuthority(AUTHORITY_NAME, validity(now, AUTHORITY_MS))
  return { ...authority, read: new X509Certificate(authority.cert) }
}

interface Served {
  readonly pair: KeyPair
  readonly read: X509Certificate
}

function usableServer(
  pair: KeyPair | undefined,
  authorities: readonly Authority[],
  names: readonly string[],
  now: number,
): Served | undefined {
  const read = readCertificate(pair?.cert)
  if (!pair || !read || !isKeyOf(read, pair.key) || now >= Date.parse(read.validTo))
    return undefined
  const isTrusted = authorities.some((authority) => isIssuedBy(read, authority))
  const isNamed = names.every(
    (name) => (isIP(name) === 0 ? read.checkHost(name) : read.checkIP(name)) !== undefined,
  )
  return isTrusted && isNamed ? { pair, read } : undefined
}

async function newServer(
  before: KeyPair | undefined,
  [first, ...others]: PlanOptions['names'],
  signer: Signer,
  now: number,
): Promise<KeyPair> {
  const { issueServerCertificate } = await import('./x509.js')
  const names = [...new Set([first, ...others, ...namesOf(before)])].slice(1, MAX_NAMES)
  return issueServerCertificate([first, ...names], validity(now, SERVER_MS), signer)
}

function namesOf(pair: KeyPair | undefined): string[] {
  const read = readCertificate(pair?.cert)
  return (read?.subjectAltName?.split(', ') ?? []).flatMap(
    (entry) => /^(?:DNS|IP Address):([\w.:-]+)$/.exec(entry)?.[1] ?? [],
  )
}

function isIssuedBy(read: X509Certificate, { read: authority }: Authority): boolean {
  return read.checkIssued(authority) && read.verify(authority.publicKey)
}

function validity(now: number, lifeMs: number): Validity {
  return {
    notBefore: new Date(now - BACKDATED_MS),
    notAfter: new Date(now - BACKDATED_MS + lifeMs),
  }
}

function renewalAt({ validFrom, validTo }: X509Certificate): number {
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)]
  return from + ((to - from) * 2) / 3
}

function readCertificate(pem = ''): X509Certificate | undefined {
  try {
    return new X509Certificate(pem)
  } catch {
    return undefined
  }
}

function isKeyOf(read: X509Certificate, key: string): boolean {
  try {
    return read.checkPrivateKey(createPrivateKey(key))
  } catch {
    return false
  }
}
