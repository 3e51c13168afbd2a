/**
 * The installation of the end-to-end suite: `ESPALIER_E2E_PROVIDER` is `embedded` (the default: a separate one for
 * every test file) or `kind` (the cluster created by `make kind-up`, shared by all).
 */
import { z } from 'zod'
import { pgVersions } from '../crds/index.ts'
import type { Provider } from './providers/provider.ts'

const providerName = z
  .enum(['embedded', 'kind'], 'ESPALIER_E2E_PROVIDER must be embedded or kind')
  .default('embedded')
  .parse(process.env.ESPALIER_E2E_PROVIDER || undefined)

/** The major versions with images: not every machine can build all. */
export const testedVersions = z
  .array(z.enum(pgVersions))
  .min(1)
  .parse(process.env.ESPALIER_E2E_PG_VERSIONS?.split(',') ?? pgVersions)

export async function startProvider(): Promise<Provider> {
  // Imported on demand: each provider needs what the other must not require, a cluster or Postgres on this machine.
  if (providerName === 'kind') return (await import('./providers/kind.ts')).startKind()
  return (await import('./providers/embedded.ts')).startEmbedded()
}
