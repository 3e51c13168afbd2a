/** Automatic growth of a database's storage: in requests, in responses, as stored, and its validation. */
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import { autogrow, type ManagedDatabaseSpec, type PinnedSize } from '../../crds/index.ts'
import { sizeInBytes } from '../../values/quantity.ts'
import { badRequest } from '../errors.ts'
import { ignored } from '../schemas/common.ts'
import { both } from '../schemas/components.ts'

const { atPercent, stepPercent, maxSize } = autogrow.shape
const fields = { at_percent: atPercent, step_percent: stepPercent, max_size: maxSize }

const example = { at_percent: 80, step_percent: 20, max_size: '100Gi' }
const growth = z.strictObject(fields).meta({ description: 'When and how far the volume grows automatically.', example })
const autogrows = both('Autogrow', growth, growth)

const { taken, given } = both(
  'Storage',
  z
    .strictObject({
      autogrow: autogrows.taken
        .nullable()
        .optional()
        .describe('Grows the volume automatically as it fills. Null disables this, and the volume keeps its size.'),
      volume_size: ignored('The size of the volume, as a resource quantity. Ignored on input.', { type: 'string' }),
    })
    .meta({ description: 'The storage of a database.', example: { autogrow: example } }),
  z.strictObject({ autogrow: autogrows.given.nullable().optional(), volume_size: z.string().optional() }),
)
export const storageInput = taken
export const storageShape = given
type StorageInput = z.output<typeof storageInput>
type StorageShape = z.output<typeof storageShape>

type Storage = ManagedDatabaseSpec['storage']

/** The spec's field after this input. undefined: the storage depends only on the size. */
export function storedStorage(current: Storage, input: StorageInput | undefined): Storage {
  if (input?.autogrow === undefined) return current
  if (input.autogrow === null) return undefined
  const { at_percent, step_percent, max_size } = input.autogrow
  return { autogrow: { atPercent: at_percent, stepPercent: step_percent, maxSize: max_size } }
}

export function renderStorage({ spec, status }: Pick<Kinds['ManagedDatabase'], 'spec' | 'status'>) {
  const autogrow = spec.storage?.autogrow
  if (autogrow === undefined) return undefined
  const capacity = status?.storage?.capacity
  const shape: StorageShape = {
    autogrow: { at_percent: autogrow.atPercent, step_percent: autogrow.stepPercent, max_size: autogrow.maxSize },
    ...(capacity === undefined ? {} : { volume_size: capacity }),
  }
  return shape
}

/** @throws ApiError 400 if the maximum is no larger than the size's storage */
export function refuseVainGrowth(input: StorageInput | undefined, pinned: PinnedSize, sizes: readonly Kinds['Size'][]) {
  if (!input?.autogrow) return
  const size = sizes.find(({ spec }) => spec.name === pinned.name && spec.version === pinned.version)
  const has = size?.spec.shape.storageSize
  const most = input.autogrow.max_size
  if ((sizeInBytes(most) ?? 0) <= (sizeInBytes(has) ?? 0))
    throw badRequest(
      `storage.autogrow.max_size: ${most} must be larger than the storage of the size ${pinned.name} (${has ?? '0'})`,
    )
}
