/**
 * `/ca.pem`: the certificate of the authority that signs the databases' certificates, for clients (`sslmode=verify-full
 * sslrootcert=ca.pem`). While the authority is being replaced, there are two certificates. The path is public, so it
 * needs no token.
 */
import { z } from 'zod'
import type { Cluster } from '../../cluster/index.ts'
import { systemNamespace } from '../../crds/index.ts'
import { authorityConfigMap } from '../../sealing/credentials.ts'
import type { ApiContext, App } from '../context.ts'
import { notFound } from '../errors.ts'
import { operation } from '../operation.ts'

const freshMs = 60_000

/** The path is unauthenticated, so the API reads the cluster at most once a minute. */
export function createAuthorityReader(cluster: Cluster, now: () => number): () => Promise<string | undefined> {
  let last: { at: number; certificate: Promise<string | undefined> } | undefined
  return () => {
    if (last === undefined || now() - last.at >= freshMs) {
      const key = { namespace: systemNamespace, name: authorityConfigMap }
      const reading = { at: now(), certificate: cluster.get('ConfigMap', key).then(found => found?.data?.['ca.crt']) }
      last = reading
      const forget = () => {
        if (last === reading) last = undefined
      }
      reading.certificate.then(certificate => certificate === undefined && forget(), forget)
    }
    return last.certificate
  }
}

export function addCertificateAuthority(app: App, { readAuthority }: ApiContext): void {
  const schema = operation(
    {
      operationId: 'getCertificateAuthority',
      tag: 'service',
      summary: 'Read the CA certificate',
      description:
        'The certificate for verifying databases with `sslmode=verify-full sslrootcert=ca.pem`. While the authority is being replaced there are several: trust all of them.',
      success: {
        status: 200,
        description: 'One or more certificates in PEM (RFC 7468).',
        shape: z.string(),
        mediaType: 'application/x-pem-file',
      },
      errors: [400, 404, 503],
      open: true,
    },
    { querystring: z.strictObject({}) },
  )
  app.get('/ca.pem', { schema }, async (_request, reply) => {
    const certificate = await readAuthority()
    if (certificate === undefined) throw notFound('certificate')
    return reply.type('application/x-pem-file').send(certificate)
  })
}
