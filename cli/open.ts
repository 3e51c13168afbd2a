/** Opens a page in the user's browser, if this machine has one. */
import { spawn } from 'node:child_process'

/** Returns the program that opens pages. Returns undefined on Linux without a display, or over SSH. */
function browserProgram(environment: NodeJS.ProcessEnv, platform: NodeJS.Platform): string | undefined {
  if (platform === 'darwin') return 'open'
  const { DISPLAY, WAYLAND_DISPLAY, SSH_CONNECTION } = environment
  return (DISPLAY || WAYLAND_DISPLAY) && !SSH_CONNECTION ? 'xdg-open' : undefined
}

/** @returns whether a browser was started */
export function openInBrowser(environment: NodeJS.ProcessEnv, url: string): boolean {
  const program = browserProgram(environment, process.platform)
  // A URL of another scheme could start any program.
  if (program === undefined || !/^https?:\/\//.test(url)) return false
  spawn(program, [url], { stdio: 'ignore', detached: true })
    // If the program is missing, the user opens the printed URL.
    .on('error', () => {})
    .unref()
  return true
}
