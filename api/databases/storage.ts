/** How the storage of a database grows by itself: as the API takes and gives it, as it is stored, and what of it is refused. */
import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import { autogrow, type ManagedDatabaseSpec, type PinnedSize } from '../../crds/index.ts'
import { bytesTold } from '../../values/quantity.ts'
import { badRequest } from '../errors.ts'
import { ignored } from '../schemas/common.ts'
import { both } from '../schemas/components.ts'

const { atPercent, stepPercent, maxSize } = autogrow.shape
const fields = { at_percent: atPercent, step_percent: stepPercent, max_size: maxSize }

const example = { at_percent: 80, step_percent: 20, max_size: '100Gi' }
const growth = z.strictObject(fields).meta({ description: 'When and how far the volume grows by itself.', example })
const autogrows = both('Autogrow', growth, growth)

const { taken, given } = both(
  'Storage',
  z
    .strictObject({
      autogrow: autogrows.taken
        .nullable()
        .optional()
        .describe('Lets the volume grow by itself as it fills. Null switches that off, and the volume keeps its size.'),
      volume_size: ignored('What the volume has, as a resource quantity. Ignored on input.', { type: 'string' }),
    })
    .meta({ description: 'The storage of a database.', example: { autogrow: example } }),
  z.strictObject({ autogrow: autogrows.given.nullable().optional(), volume_size: z.string().optional() }),
)
export const storageInput = taken
export const storageShape = given
type StorageInput = z.output<typeof storageInput>
type StorageShape = z.output<typeof storageShape>

type Storage = ManagedDatabaseSpec['storage']

/** What a spec has after this was asked; undefined: nothing but what its size says. */
export function storedStorage(current: Storage, asked: StorageInput | undefined): Storage {
  if (asked?.autogrow === undefined) return current
  if (asked.autogrow === null) return undefined
  const { at_percent, step_percent, max_size } = asked.autogrow
  return { autogrow: { atPercent: at_percent, stepPercent: step_percent, maxSize: max_size } }
}

export function renderStorage({ spec, status }: Pick<Kinds['ManagedDatabase'], 'spec' | 'status'>) {
  const asked = spec.storage?.autogrow
  if (asked === undefined) return undefined
  const capacity = status?.storage?.capacity
  const shape: StorageShape = {
    autogrow: { at_percent: asked.atPercent, step_percent: asked.stepPercent, max_size: asked.maxSize },
    ...(capacity === undefined ? {} : { volume_size: capacity }),
  }
  return shape
}

/** @throws ApiError 400 where it would grow no further than the size goes anyway */
export function refuseVainGrowth(asked: StorageInput | undefined, pinned: PinnedSize, sizes: readonly Kinds['Size'][]) {
  if (!asked?.autogrow) return
  const size = sizes.find(({ spec }) => spec.name === pinned.name && spec.version === pinned.version)
  const has = size?.spec.shape.storageSize
  const most = asked.autogrow.max_size
  if ((bytesTold(most) ?? 0) <= (bytesTold(has) ?? 0))
    throw badRequest(`storage.autogrow.max_size: ${most} is no more than the ${has ?? '0'} of the size ${pinned.name}`)
}
