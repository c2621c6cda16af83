import { expect, it } from 'vitest'
import { issueAuthority, issueServerCertificate } from './certificates/x509.js'
import { WebhookMetrics } from './metrics.js'

it("counts reviews by outcome and operation, and has the certificate's expiry", async () => {
  let certificate: string | undefined
  const metrics = new WebhookMetrics({
    certificate: () => certificate,
    types: () => ({ source: 'bundled', version: 'v1.34.0' }),
  })
  metrics.reviewed('CREATE', 'denied', 0.002)
  for (const operation of ['', 'x'.repeat(100), 'CONNECT'])
    metrics.reviewed(operation, 'allowed', 0.002)
  metrics.apiAnswered('GET', 200)
  metrics.apiAnswered('GET', undefined)
  const before = await metrics.registry.metrics()
  expect(before).toContain('akri_webhook_reviews_total{operation="CREATE",outcome="denied"} 1')
  expect(before).toContain('akri_webhook_reviews_total{operation="other",outcome="allowed"} 3')
  expect(before).toContain('akri_webhook_review_duration_seconds_count 4')
  expect(before).toContain('akri_webhook_types_info{source="bundled",version="v1.34.0"} 1')
  expect(before).toContain('akri_api_requests_total{method="GET",status="200"} 1')
  expect(before).toContain('akri_api_requests_total{method="GET",status="none"} 1')
  expect(before).not.toMatch(/^akri_webhook_certificate_expiry/m)
  const validity = { notBefore: new Date(), notAfter: new Date('2030-01-01T00:00:00Z') }
  const authority = await issueAuthority('test', validity)
  certificate = (await issueServerCertificate(['localhost'], validity, authority)).cert
  expect(await metrics.registry.metrics()).toContain(
    'akri_webhook_certificate_expiry_timestamp_seconds ' +
      `${Date.parse('2030-01-01T00:00:00Z') / 1000}`,
  )
})
