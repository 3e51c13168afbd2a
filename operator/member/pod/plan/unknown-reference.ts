/** Findings about a spec that names a missing size or region. Pure. */
import type { PinnedSize, Region, SizeShape } from '../../../../crds/index.ts'
import { type Finding, no } from '../../../objects/conditions.ts'
import { sizeText } from '../stateful-set.ts'

export const sizeNotFound = (size: PinnedSize): string =>
  `spec.size: there is no size ${sizeText(size)}; \`kubectl get sizes\` lists the existing ones, as NAME-vVERSION`

const regionNotFound = (name: string): Finding =>
  no('RegionNotFound', `spec.region: there is no region ${name}; \`kubectl get regions\` lists the existing ones`)

type Named = {
  name: string
  region: Region | undefined
  size: { effective: PinnedSize; shape: SizeShape | undefined }
}

/** One finding that names each field with an unknown value. Undefined if both values exist. */
export function unknownReference({ name, region, size }: Named): Finding | undefined {
  const [first, ...others] = [
    ...(region === undefined ? [regionNotFound(name)] : []),
    ...(size.shape === undefined ? [no('SizeNotFound', sizeNotFound(size.effective))] : []),
  ]
  return first && { ...first, message: [first, ...others].map(({ message }) => message).join('; ') }
}
