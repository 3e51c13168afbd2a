/**
 * The installation that the end-to-end suite runs on: `ESPALIER_E2E_PROVIDER` is `embedded` (the
 * default: one of its own for every file of tests) or `kind` (the cluster that `make kind-up` made, shared by all).
 */
// @ts-nocheck

import { z } from 'zod'
import { pgVersions } from '../crds/index.ts'
import type { Provider } from './providers/provider.ts'

const providerName = z
  .enum(['embedded', 'kind'], 'ESPALIER_E2E_PROVIDER must be embedded or kind')
  .default('embedded')
  .parse(process.env.ESPALIER_E2E_PROVIDER || undefined)

/** The major versions that there are images of: not every machine can build all. */
export const testedVersions = z
  .array(z.enum(pgVersions))
  .min(1)
  .parse(process.env.ESPALIER_E2E_PG_VERSIONS?.split(',') ?? pgVersions)

export async function startProvider(): Promise<Provider> {
  // Each brings what the other must not need: a cluster, or Postgres on this machine.
  if (providerName === 'kind') return (await import('./providers/kind.ts')).startKind()
  return (await import('./providers/embedded.ts')).startEmbedded()
}
