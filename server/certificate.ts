/**
 * Keeps a certificate up to date with its files. They are read again at intervals and compared: a mounted Secret changes
 * by a symbolic link far above the file, which watching the file does not see. A pair that is only half written, or no
 * pair, is left alone, and said so once.
 */
import { readFile } from 'node:fs/promises'
import type { Logger } from 'pino'

/** PEM: a certificate, and those that lead to its authority; its private key. */
export type Certificate = { cert: string; key: string }

/** `chain`: certificates that lead to the authority, where they are not in the first file. */
export type CertificateFiles = { cert: string; key: string; chain?: string | undefined }

/** @throws Error where a file cannot be read */
export async function readCertificate({ cert, key, chain }: CertificateFiles): Promise<Certificate> {
  const read = (path: string) => readFile(path, 'utf8')
  const [own, privateKey, more] = await Promise.all([
    read(cert),
    read(key),
    chain === undefined ? undefined : read(chain),
  ])
  return { cert: more === undefined ? own : `${own}\n${more}`, key: privateKey }
}

const defaultIntervalMs = 10_000

/** Calls `use` with each new pair until stopped; `use` throws where it is none. `current` is the one in use already. */
export function followCertificate(options: {
  files: CertificateFiles
  current: Certificate
  use: (certificate: Certificate) => void
  intervalMs?: number | undefined
  logger: Logger
}): { stop(): void } {
  const { files, use, intervalMs = defaultIntervalMs, logger } = options
  /** As last looked at, in use or not. */
  let seen = options.current
  let stopped = false
  let timer: NodeJS.Timeout

  const look = async (): Promise<void> => {
    try {
      const found = await readCertificate(files)
      if (stopped || (found.cert === seen.cert && found.key === seen.key)) return
      seen = found
      use(found)
      logger.info({ file: files.cert }, 'the certificate has changed; the new one is in use')
    } catch (error) {
      // The text of an error about a key may quote it.
      const code = error instanceof Error && 'code' in error ? error.code : undefined
      logger.warn({ file: files.cert, code }, 'the certificate has changed and cannot be used; keeping the one before')
    }
  }
  const again = (): void => {
    timer = setTimeout(() => void look().finally(() => !stopped && again()), intervalMs)
  }
  again()
  return {
    stop: () => {
      stopped = true
      clearTimeout(timer)
    },
  }
}
