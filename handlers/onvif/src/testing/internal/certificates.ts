import {
  issueAuthority,
  issueServerCertificate,
} from '../../../../../webhook/src/certificates/x509.js'

const HOUR_MS = 3_600_000
const validity = {
  notBefore: new Date(Date.now() - HOUR_MS),
  notAfter: new Date(Date.now() + HOUR_MS),
}
const authority = await issueAuthority('cameras', validity)
const names = ['127.0.0.1', 'camera.example'] as const
const { key, cert } = await issueServerCertificate([...names], validity, authority)

/** The authority that signs the certificate of a camera, in PEM. */
export const authorities = authority.cert
/** A key of a camera and its certificate, with its authority, in PEM. */
export const tls = { key, cert: `${cert}${authorities}` }
