import { createPrivateKey, X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import {
  type IssuedCertificate,
  issueAuthority,
  issueServerCertificate,
  type Validity,
} from './x509.js'

/** What the replicas share: kept in a Secret. */
export interface Certificates {
  /** Certificates of authorities that are to be trusted, the newest first. PEM. */
  readonly authorities: readonly string[]
  /** The key of the newest. */
  readonly authorityKey: string
  /** What is served. */
  readonly server: IssuedCertificate
}

export interface CertificatePlan {
  readonly certificates: Certificates
  /** When something more is to be done, in milliseconds since the epoch. */
  readonly nextAt: number
}

export interface PlanOptions {
  readonly now: number
  /** What the certificate must be good for. */
  readonly names: readonly [string, ...string[]]
  /**
   * Since when API servers are told to trust an authority, in milliseconds since the epoch; undefined where they are not. Who
   * hears that it has become so asks for another plan.
   */
  announcedAt(authority: string): number | undefined
}

const HOUR_MS = 60 * 60_000
const DAY_MS = 24 * HOUR_MS
const AUTHORITY_MS = 360 * DAY_MS
const SERVER_MS = 90 * DAY_MS
/** Certificates are good since before they were made: clocks differ. */
const BACKDATED_MS = HOUR_MS
/** How long API servers may take to hear of a new authority before something that it has issued is served. */
const SETTLE_MS = 20_000
/** How long an authority is trusted after the last certificate of its own was replaced: replicas take theirs over within seconds. */
const OVERLAP_MS = HOUR_MS
/** Replicas of two versions may want different names; both get theirs. */
const MAX_NAMES = 20
const MAX_AUTHORITIES = 4

const AUTHORITY_NAME = 'akri-webhook'

interface Authority {
  readonly cert: string
  readonly read: X509Certificate
}

/** One that can issue. */
interface Signer extends Authority {
  readonly key: string
}

/**
 * What is to be in force now. Each certificate is renewed after two thirds of its life. A new authority is made known first;
 * when that has settled it issues what is served, and the old one is forgotten an hour later. So what a replica serves is trusted
 * at any time, be it the certificate before. Only where there is nothing to serve at all is there no waiting.
 *
 * @param stored as it was found; parts that are of no use are made anew
 */
export function planCertificates(
  stored: Partial<Certificates>,
  { now, names, announcedAt }: PlanOptions,
): CertificatePlan {
  const known = (stored.authorities ?? []).flatMap((cert) => readAuthority(cert, now))
  const signer = currentSigner(known[0], stored.authorityKey, now) ?? newSigner(now)
  const authorities = [signer, ...known.filter(({ cert }) => cert !== signer.cert)].slice(
    0,
    MAX_AUTHORITIES,
  )
  const served = usableServer(stored.server, authorities, names, now)
  const settledAt = (announcedAt(signer.cert) ?? Infinity) + SETTLE_MS
  if (served !== undefined && !isIssuedBy(served, signer) && now < settledAt) {
    return plan(
      authorities,
      signer,
      served.pair,
      Math.min(settledAt, renewalAt(signer.read), Date.parse(served.read.validTo)),
    )
  }
  const isGood = served !== undefined && isIssuedBy(served, signer) && now < renewalAt(served.read)
  const server = isGood ? served.pair : newServer(stored.server, names, signer, now)
  const read = isGood ? served.read : new X509Certificate(server.cert)
  const forgetAt = madeAt(read) + OVERLAP_MS
  const renewAt = Math.min(renewalAt(signer.read), renewalAt(read))
  if (authorities.length === 1 || now >= forgetAt) return plan([signer], signer, server, renewAt)
  return plan(authorities, signer, server, Math.min(renewAt, forgetAt))
}

function plan(
  authorities: readonly Authority[],
  signer: Signer,
  server: IssuedCertificate,
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

/** The authority, unless it is none or has run out. */
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
  if (
    newest === undefined ||
    key === undefined ||
    !isKeyOf(newest.read, key) ||
    now >= renewalAt(newest.read)
  )
    return undefined
  return { ...newest, key }
}

function newSigner(now: number): Signer {
  const authority = issueAuthority(AUTHORITY_NAME, validity(now, AUTHORITY_MS))
  return { ...authority, read: new X509Certificate(authority.cert) }
}

interface Served {
  readonly pair: IssuedCertificate
  readonly read: X509Certificate
}

function usableServer(
  pair: IssuedCertificate | undefined,
  authorities: readonly Authority[],
  names: readonly string[],
  now: number,
): Served | undefined {
  const read = pair === undefined ? undefined : readCertificate(pair.cert)
  if (
    pair === undefined ||
    read === undefined ||
    !isKeyOf(read, pair.key) ||
    now >= Date.parse(read.validTo)
  )
    return undefined
  const isTrusted = authorities.some((authority) => isIssuedBy({ read }, authority))
  const isNamed = names.every(
    (name) => (isIP(name) === 0 ? read.checkHost(name) : read.checkIP(name)) !== undefined,
  )
  return isTrusted && isNamed ? { pair, read } : undefined
}

function newServer(
  before: IssuedCertificate | undefined,
  [first, ...others]: PlanOptions['names'],
  signer: Signer,
  now: number,
): IssuedCertificate {
  const names = [...new Set([first, ...others, ...namesOf(before)])].slice(1, MAX_NAMES)
  return issueServerCertificate([first, ...names], validity(now, SERVER_MS), signer)
}

function namesOf(pair: IssuedCertificate | undefined): string[] {
  const read = pair === undefined ? undefined : readCertificate(pair.cert)
  return (read?.subjectAltName?.split(', ') ?? []).flatMap(
    (entry) => /^(?:DNS|IP Address):([\w.:-]+)$/.exec(entry)?.[1] ?? [],
  )
}

function isIssuedBy({ read }: Pick<Served, 'read'>, { read: authority }: Authority): boolean {
  return read.checkIssued(authority) && read.verify(authority.publicKey)
}

function validity(now: number, lifeMs: number): Validity {
  return {
    notBefore: new Date(now - BACKDATED_MS),
    notAfter: new Date(now - BACKDATED_MS + lifeMs),
  }
}

function madeAt({ validFrom }: X509Certificate): number {
  return Date.parse(validFrom) + BACKDATED_MS
}

function renewalAt({ validFrom, validTo }: X509Certificate): number {
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)]
  return from + ((to - from) * 2) / 3
}

function readCertificate(pem: string): X509Certificate | undefined {
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
