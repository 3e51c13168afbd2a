/**
 * The current use of volumes, in memory: the pods that have a volume mounted, and the processes that may write to it. A
 * volume can be frozen briefly. Until it is released, no process starts on it and no probe result counts.
 */
import type { ProcessIdentity } from '../processes/table.ts'

/** Identifies a volume by its handle, and a snapshot and a pod by their uid. */
export type VolumeUse = {
  /**
   * Reserves a volume for a pod. Returns false while another pod uses the volume and one of both pods wants exclusive
   * use.
   */
  acquire(volume: string, pod: string, alone: boolean): boolean
  release(volume: string, pod: string): void
  /** Protects a volume or an image from removal while it is copied. The returned function ends the protection. */
  read(volume: string): () => void
  /** Whether a pod uses the volume, or a process that may write to it runs. */
  isMounted(volume: string): boolean
  /** Whether a pod uses the volume, or a copy reads it. */
  isInUse(volume: string): boolean
  /**
   * Calls `launch` as soon as none of the volumes is frozen. Counts the started process as a writer until it has ended.
   */
  start<T extends ProcessIdentity>(volumes: string[], launch: () => T): Promise<T>
  ended(volumes: string[], writer: ProcessIdentity): void
  /** Resolves at a moment when none of the volumes is frozen. */
  whenReleased(volumes: string[]): Promise<void>
  writers(volumes: string[]): ProcessIdentity[]
  /** Freezes a volume once no other freeze of the volume is active. The returned function releases it. */
  freeze(volume: string): Promise<() => void>
  /** Increases with every freeze of any of the volumes. Negative while one of them is frozen. */
  epoch(volumes: string[]): number
  /** Called whenever a pod or a copy releases a volume. */
  onRelease(handler: (volume: string) => void): void
}

type Entry = {
  holders: Map<string, { alone: boolean }>
  writers: Set<ProcessIdentity>
  readers: number
  frozen: PromiseWithResolvers<void> | undefined
  freezes: number
}

const newEntry = (): Entry => ({
  holders: new Map(),
  writers: new Set(),
  readers: 0,
  frozen: undefined,
  freezes: 0,
})

export function createVolumeUse(): VolumeUse {
  const entries = new Map<string, Entry>()
  const handlers: ((volume: string) => void)[] = []

  const entryOf = (volume: string): Entry => {
    const entry = entries.get(volume) ?? newEntry()
    entries.set(volume, entry)
    return entry
  }
  const tidy = (volume: string, entry: Entry) => {
    const { holders, writers, readers, frozen } = entry
    if (holders.size === 0 && writers.size === 0 && readers === 0 && frozen === undefined) entries.delete(volume)
  }
  const frozenOne = (volumes: string[]) =>
    volumes.map(volume => entries.get(volume)?.frozen).find(frozen => frozen !== undefined)

  async function whenReleased(volumes: string[]): Promise<void> {
    for (let frozen = frozenOne(volumes); frozen !== undefined; frozen = frozenOne(volumes)) await frozen.promise
  }

  return {
    acquire(volume, pod, alone) {
      const { holders } = entryOf(volume)
      const others = [...holders].filter(([holder]) => holder !== pod)
      if (others.length > 0 && (alone || others.some(([, other]) => other.alone))) return false
      holders.set(pod, { alone })
      return true
    },
    release(volume, pod) {
      const entry = entries.get(volume)
      if (entry?.holders.delete(pod) !== true) return
      tidy(volume, entry)
      for (const handler of handlers) handler(volume)
    },
    read(volume) {
      const entry = entryOf(volume)
      entry.readers += 1
      let reading = true
      return () => {
        if (!reading) return
        reading = false
        entry.readers -= 1
        tidy(volume, entry)
        for (const handler of handlers) handler(volume)
      }
    },
    isMounted(volume) {
      const entry = entries.get(volume)
      return entry !== undefined && (entry.holders.size > 0 || entry.writers.size > 0)
    },
    isInUse(volume) {
      const entry = entries.get(volume)
      return entry !== undefined && (entry.holders.size > 0 || entry.readers > 0)
    },
    async start(volumes, launch) {
      // Checked again in the event loop turn of the launch, because a freeze may have begun meanwhile.
      for (let frozen = frozenOne(volumes); frozen !== undefined; frozen = frozenOne(volumes)) await frozen.promise
      const writer = launch()
      for (const volume of volumes) entryOf(volume).writers.add(writer)
      return writer
    },
    ended(volumes, writer) {
      for (const volume of volumes) {
        const entry = entries.get(volume)
        if (entry?.writers.delete(writer)) tidy(volume, entry)
      }
    },
    whenReleased,
    writers: volumes => [...new Set(volumes.flatMap(volume => [...(entries.get(volume)?.writers ?? [])]))],
    async freeze(volume) {
      for (let frozen = frozenOne([volume]); frozen !== undefined; frozen = frozenOne([volume])) await frozen.promise
      const entry = entryOf(volume)
      const frozen = Promise.withResolvers<void>()
      entry.frozen = frozen
      entry.freezes += 1
      return () => {
        if (entry.frozen !== frozen) return
        entry.frozen = undefined
        tidy(volume, entry)
        frozen.resolve()
      }
    },
    epoch(volumes) {
      if (frozenOne(volumes) !== undefined) return -1
      return volumes.reduce((sum, volume) => sum + (entries.get(volume)?.freezes ?? 0), 0)
    },
    onRelease(handler) {
      handlers.push(handler)
    },
  }
}
