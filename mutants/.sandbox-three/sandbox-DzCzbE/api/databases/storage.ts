/** How the storage of a database grows by itself: as the API takes and gives it, as it is stored, and what of it is refused. */
// @ts-nocheck

import { z } from 'zod'
import type { Kinds } from '../../cluster/index.ts'
import { autogrow, type ManagedDatabaseSpec, type PinnedSize } from '../../crds/index.ts'
import { bytesTold } from '../../values/quantity.ts'
import { badRequest } from '../errors.ts'
import { input, output } from '../schemas/components.ts'

const { atPercent, stepPercent, maxSize } = autogrow.shape
const fields = { at_percent: atPercent, step_percent: stepPercent, max_size: maxSize }

export const storageInput = input(
  'StorageInput',
  z
    .strictObject({
      autogrow: input('AutogrowInput', z.strictObject(fields).describe('When and how far the volume grows by itself.'))
        .nullable()
        .optional()
        .describe('Lets the volume grow by itself as it fills. Null switches that off, and the volume keeps its size.'),
    })
    .describe('The storage of a database.'),
)
type StorageInput = z.output<typeof storageInput>

export const storageShape = output(
  'Storage',
  z
    .strictObject({
      autogrow: output('Autogrow', z.strictObject(fields).describe('When and how far the volume grows by itself.'))
        .nullable()
        .optional()
        .describe('Null: it does not grow by itself.'),
      volume_size: z.string().optional().describe('What the volume has, as a resource quantity.'),
    })
    .describe('The storage of a database, where it grows by itself.'),
)
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
