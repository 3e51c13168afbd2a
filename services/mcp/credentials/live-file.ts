/**
 * A credential file as it is now. It promises that what is known changes as a whole or not at all: a file that is wrong, half written or gone
 * leaves what was known before, and is an error in the log.
 */
import type { Logger } from 'pino'
import { type Entries, type Form, parseEntries } from './document.ts'
import { CredentialError } from './errors.ts'
import { watchFile } from './watch.ts'
import { changeEntries, isLax, readText } from './write.ts'

export type LiveFile<Entry> = {
  entries(): Entries<Entry>
  /** What is known is what was written once this resolves. @throws CredentialError */
  change(change: (before: Entries<Entry>) => Entries<Entry>): Promise<void>
  stop(): Promise<void>
}

type Options<Entry> = {
  readonly form: Form<Entry>
  readonly path: string
  readonly logger: Logger
  /** After what is known has changed. */
  readonly onChange?: (entries: Entries<Entry>) => void
}

/** @throws CredentialError where the file is there and wrong: nobody is to be let in or kept out by half a file */
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

  const parse = (given: string): Entries<Entry> => {
    try {
      return parseEntries(form, given)
    } catch (error) {
      throw error instanceof CredentialError ? new CredentialError(`${path} ${error.message}`) : error
    }
  }

  async function warnOfLaxMode(): Promise<void> {
    if (await isLax(path)) logger.warn(`[AUTH] ${path} may be read by others: its mode should be 600`)
  }

  async function read(): Promise<void> {
    try {
      const next = await readText(path)
      if (isStopped || next === text) return
      if (next === undefined) throw new CredentialError(`${path} is not there any more`)
      entries = parse(next)
      text = next
      logger.info({ [form.table]: entries.size }, `[AUTH] ${path} has been read again`)
      await warnOfLaxMode()
      onChange(entries)
    } catch (error) {
      const reason = error instanceof CredentialError ? error.message : `${path} cannot be read`
      logger.error(`[AUTH] ${reason}; what was known before holds`)
    }
  }
  /** One after the other, so that an earlier content never comes after a later one. */
  const readAgain = (): Promise<void> => {
    reading = reading.then(read)
    return reading
  }

  if (text === undefined) logger.warn(`[AUTH] ${path} is not there: no ${form.table} are known until it is`)
  else {
    entries = parse(text)
    logger.info({ [form.table]: entries.size }, `[AUTH] ${path} has been read`)
    await warnOfLaxMode()
  }
  const stopWatching = watchFile(path, () => void readAgain())
  // What has changed between reading and watching.
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
