/** Applies the theme of the console, and keeps it in the browser's storage. */
import { useSyncExternalStore } from 'react'

export const themes = ['system', 'light', 'dark'] as const
type Theme = (typeof themes)[number]

const key = 'espalier-theme'
const listeners = new Set<() => void>()

function stored(): Theme {
  try {
    return themes.find(theme => theme === localStorage.getItem(key)) ?? 'system'
  } catch {
    return 'system'
  }
}

let current = stored()

function apply(): void {
  const { dataset } = document.documentElement
  if (current === 'system') delete dataset.theme
  else dataset.theme = current
}

/** `main.tsx` calls this once, before the first page is drawn. */
export const applyTheme = apply

export function setTheme(theme: Theme): void {
  current = theme
  try {
    localStorage.setItem(key, theme)
  } catch {
    // The storage is disabled: the theme lasts until the user reloads the page.
  }
  apply()
  for (const listener of listeners) listener()
}

export const useTheme = (): Theme =>
  useSyncExternalStore(
    listener => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => current,
  )
