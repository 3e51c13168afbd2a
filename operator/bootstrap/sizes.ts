/**
 * Runs before an upgrade changes anything. Checks that the sizes to apply equal the existing ones. A size is immutable,
 * so the API server would refuse a different size in the middle of the upgrade.
 */
import { z } from 'zod'
import type { Cluster } from '../../cluster/index.ts'
import { canonicalJson } from '../../crds/index.ts'

/** The format in the chart: `{name, version, shape}`, with the shape to apply. */
export const wantedSizes = z
  .array(z.strictObject({ name: z.string(), version: z.int(), shape: z.record(z.string(), z.unknown()) }))
  .max(1000)
export type WantedSize = z.output<typeof wantedSizes>[number]

/** One line for each size whose shape differs from the one in the cluster. */
export async function changedShapes(cluster: Pick<Cluster, 'get'>, wanted: readonly WantedSize[]): Promise<string[]> {
  const found = await Promise.all(
    wanted.map(async ({ name, version, shape }) => {
      const present = await cluster.get('Size', { name: `${name}-v${version}` })
      if (present === undefined || canonicalJson(present.spec.shape) === canonicalJson(shape)) return undefined
      const before = new Map<string, unknown>(Object.entries(present.spec.shape))
      const fields = [...new Set([...before.keys(), ...Object.keys(shape)])].filter(
        field => canonicalJson(before.get(field) ?? null) !== canonicalJson(shape[field] ?? null),
      )
      return `sizes: ${name} version ${version} exists with another shape (${fields.sort().join(', ')}), and a shape never changes: add the new shape as version ${version + 1}, and set status: deprecated on this one`
    }),
  )
  return found.filter(line => line !== undefined)
}
