/** Findings about a size or a region in a spec that do not exist. Pure. */
import type { PinnedSize, Region, SizeShape } from '../../../../crds/index.ts'
import { type Finding, no } from '../../../objects/conditions.ts'
import { sizeText } from '../stateful-set.ts'

export const sizeNotFound = (size: PinnedSize): string =>
  `spec.size: there is no size ${sizeText(size)}: \`kubectl get sizes\` lists those there are, as NAME-vVERSION`

const regionNotFound = (name: string): Finding =>
  no('RegionNotFound', `spec.region: there is no region ${name}: \`kubectl get regions\` lists those there are`)

type Named = {
  name: string
  region: Region | undefined
  size: { effective: PinnedSize; shape: SizeShape | undefined }
}

/** One finding that names each field whose value is unknown; undefined where both are known. */
export function unknownReference({ name, region, size }: Named): Finding | undefined {
  const [first, ...others] = [
    ...(region === undefined ? [regionNotFound(name)] : []),
    ...(size.shape === undefined ? [no('SizeNotFound', sizeNotFound(size.effective))] : []),
  ]
  return first && { ...first, message: [first, ...others].map(({ message }) => message).join('; ') }
}
