/**
 * The installation of the end-to-end suite. `ESPALIER_E2E_PROVIDER` is `embedded` (the default: a separate installation
 * for every test file) or `kind` (the cluster that `make kind-up` created, shared by all files).
 */
import { z } from 'zod'
import { pgVersions } from '../crds/index.ts'
import type { Provider } from './providers/provider.ts'

const providerName = z
  .enum(['embedded', 'kind'], 'ESPALIER_E2E_PROVIDER must be embedded or kind')
  .default('embedded')
  .parse(process.env.ESPALIER_E2E_PROVIDER || undefined)

/** The major versions that have images, because not every machine can build all of them. */
export const testedVersions = z
  .array(z.enum(pgVersions))
  .min(1)
  .parse(process.env.ESPALIER_E2E_PG_VERSIONS?.split(',') ?? pgVersions)

export async function startProvider(): Promise<Provider> {
  // Imported on demand: each provider needs something that the other must not require, a cluster or Postgres on this
  // machine.
  if (providerName === 'kind') return (await import('./providers/kind.ts')).startKind()
  return (await import('./providers/embedded.ts')).startEmbedded()
}
