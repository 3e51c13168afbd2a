/**
 * The current content of a credential file. A reload replaces all entries at once. If the file is invalid, incomplete
 * or missing, the previous entries remain, and an error is logged.
 */
import type { Logger } from 'pino'
import { type Entries, type Form, parseEntries } from './document.ts'
import { CredentialError } from './errors.ts'
import { watchFile } from './watch.ts'
import { changeEntries, isLax, readText } from './write.ts'

export type LiveFile<Entry> = {
  entries(): Entries<Entry>
  /** Resolves when the written entries apply. @throws CredentialError */
  change(change: (before: Entries<Entry>) => Entries<Entry>): Promise<void>
  stop(): Promise<void>
}

type Options<Entry> = {
  readonly form: Form<Entry>
  readonly path: string
  readonly logger: Logger
  /** Called after the entries have changed. */
  readonly onChange?: (entries: Entries<Entry>) => void
}

/** @throws CredentialError if the file exists and is invalid: an incomplete file must neither grant nor deny access */
export async function openLiveFile<Entry>({
  form,
  path,
  logger,
  onChange = () => {},
}: Options<Entry>): Promise<LiveFile<Entry>> {
  let text = await readText(path)
  let entries: Entries<Entry> = new Map()
  let reading: Promise<void> = Promise.resolve()
  let isStopped = false

  const parse = (source: string): Entries<Entry> => {
    try {
      return parseEntries(form, source)
    } catch (error) {
      throw error instanceof CredentialError ? new CredentialError(`${path} ${error.message}`) : error
    }
  }

  async function warnOfLaxMode(): Promise<void> {
    if (await isLax(path)) logger.warn(`[AUTH] ${path} may be readable by others: its mode should be 600`)
  }

  async function read(): Promise<void> {
    try {
      const next = await readText(path)
      if (isStopped || next === text) return
      if (next === undefined) throw new CredentialError(`${path} no longer exists`)
      entries = parse(next)
      text = next
      logger.info({ [form.table]: entries.size }, `[AUTH] ${path} has been read again`)
      await warnOfLaxMode()
      onChange(entries)
    } catch (error) {
      const reason = error instanceof CredentialError ? error.message : `${path} cannot be read`
      logger.error(`[AUTH] ${reason}; the previous entries still apply`)
    }
  }
  /** Reads run one after another, so that older content never replaces newer content. */
  const readAgain = (): Promise<void> => {
    reading = reading.then(read)
    return reading
  }

  if (text === undefined) logger.warn(`[AUTH] ${path} does not exist: no ${form.table} are known until it does`)
  else {
    entries = parse(text)
    logger.info({ [form.table]: entries.size }, `[AUTH] ${path} has been read`)
    await warnOfLaxMode()
  }
  const stopWatching = watchFile(path, () => void readAgain())
  // Detects changes between the first read and the start of the watch.
  await readAgain()
  return {
    entries: () => entries,
    change: async change => {
      await changeEntries(form, path, change)
      await readAgain()
    },
    stop: async () => {
      isStopped = true
      stopWatching()
      await reading
    },
  }
}
