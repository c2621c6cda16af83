/**
 * Names of environment variables that change how a program starts, which code it loads, or whom it
 * trusts. A handler describes devices; the author of a broker decides about its programs. The lists
 * of glibc (unsecvars.h: what set-user-id programs ignore) and of sudo (initial_badenv_table) are
 * the base. No list of this kind is complete: an operator can allow the names of a handler only.
 */
const FAMILIES: readonly (readonly [reason: string, names: readonly string[]])[] = [
  [
    'the dynamic loader and the C library read it',
    [
      ...['LD_.*', 'LDR_.*', 'DYLD_.*', 'SHLIB_PATH', 'LIBPATH', 'GCONV_PATH', 'GETCONF_DIR'],
      ...['GLIBC_.*', 'HOSTALIASES', 'LOCALDOMAIN', 'LOCPATH', 'PATH_LOCALE', 'MALLOC_.*'],
      ...['NIS_PATH', 'NLSPATH', 'RESOLV_.*', 'RES_OPTIONS', 'TMPDIR', 'TZDIR', 'NSS_.*'],
      ...['TERMINFO.*', 'TERMPATH', 'TERMCAP', 'KRB5.*', '(ASAN|LSAN|MSAN|TSAN|UBSAN)_OPTIONS'],
      ...['.*PRELOAD', '.*LIBRARY_PATH', '.*PLUGINS?_PATH', '.*MODULES?_PATH', '.*DRIVERS_PATH'],
      // Such as _JAVA_OPTIONS, _RLD_LIST, __EGL_VENDOR_LIBRARY_FILENAMES.
      '_.*',
    ],
  ],
  [
    'shells read it',
    [
      ...['PATH', 'ENV', 'BASH.*', 'SHELLOPTS', 'SHELL', 'IFS', 'CDPATH', 'GLOBIGNORE', 'PS4'],
      ...['PROMPT_COMMAND', 'FPATH', 'NULLCMD', 'READNULLCMD', 'ZDOTDIR', 'TMPPREFIX'],
      ...['EDITOR', 'VISUAL', 'PAGER', 'LESSOPEN', 'LESSCLOSE', '.*[()].*'],
    ],
  ],
  ['programs look for their files there', ['HOME', 'XDG_.*', 'FFREPORT', 'MAGICK_.*']],
  [
    'a language runtime reads it',
    [
      // Not NODE_.*: devices have a NODE_ID.
      'NODE_(OPTIONS|PATH|ENV|UNIQUE_ID|(EXTRA|TLS|ICU|REPL|V8|REDIRECT|COMPILE|USE|DEBUG|TEST|CHANNEL|PRESERVE|PENDING|SKIP).*)',
      ...[
        'NPM_.*',
        'PYTHON.*',
        'PIP_(CONFIG_FILE|(EXTRA_)?INDEX_URL)',
        'VIRTUAL_ENV',
        'PERL.*',
        'RUBY.*',
        'BUNDLE_.*',
      ],
      ...['GEM_(HOME|PATH|SKIP|SPEC.*)', 'JAVA.*', 'JDK_.*', '.*JAVA_OPTIONS', 'CLASSPATH'],
      ...['.*_OPTS', 'DOTNET_.*', 'ASPNETCORE_.*', 'CORECLR_.*', 'COMPLUS_.*'],
      ...['COR_(ENABLE_PROFILING|PROFILER.*)', 'MONO_(PATH|CONFIG|ENV|GAC|LOG|TRACE|DEBUG).*'],
      ...['GO(DEBUG|TRACEBACK|COVERDIR|GC|MEMLIMIT|MAXPROCS|FLAGS|PROXY|ROOT|PATH)'],
      ...['PHPRC', 'PHP_INI_.*', 'LUA_(C?PATH|INIT).*', 'R_(HOME|PROFILE|ENVIRON|LIBS).*'],
      ...['JULIA_.*', 'ERL_.*', 'ELIXIR_.*', 'GUILE_.*', 'TCLLIBPATH', 'OCAMLRUNPARAM'],
    ],
  ],
  [
    'a framework loads code by it',
    [
      ...[
        'GST_(PLUGIN|REGISTRY).*',
        'QT_.*',
        'GTK_.*',
        'GDK_.*',
        'GIO_(MODULE|EXTRA|USE).*',
        'FONTCONFIG_.*',
      ],
      ...['ALSA_(CONFIG|PLUGIN|MIXER).*', 'VK_.*', 'OCL_ICD_.*', 'CUDA_INJECTION.*', 'EGL_.*'],
    ],
  ],
  [
    'it changes whom a program trusts',
    [
      ...[
        'SSLKEYLOGFILE',
        'SSL_(CERT|CA|CONF|VERIFY|ENGINE).*',
        'OPENSSL_.*',
        'CURL_.*',
        '.*CA_BUNDLE',
        'GRPC_DEFAULT_SSL.*',
        'GIT_.*',
      ],
      ...['SSH_(ASKPASS.*|AUTH_SOCK)'],
      'AWS_(ACCESS|SECRET|SESSION|CONFIG|SHARED|PROFILE|ROLE|WEB|CA|ENDPOINT|CONTAINER).*',
      // Not AZURE_.* and GOOGLE_.*: they make devices.
      ...['AZURE_(CLIENT|TENANT|AUTHORITY|FEDERATED|CONFIG|SUBSCRIPTION).*'],
      ...['GOOGLE_(APPLICATION|CLOUD|API|AUTH|EXTERNAL).*', 'DOCKER_.*'],
      ...['(CGI_)?(HTTPS?|ALL|NO|FTP|RSYNC|SOCKS|GRPC|WSS?)_PROXY', 'DBUS_.*'],
    ],
  ],
  [
    'a container runtime or service manager reads it',
    [
      'NVIDIA_(VISIBLE|DRIVER|REQUIRE|DISABLE|MIG|IMEX|GDS|MOFED|GDRCOPY|NVSWITCH|CTK|CONTAINER).*',
      // CUDA, HIP and ROCR choose among the devices that a container has.
      '(?!CUDA_|HIP_|ROCR_)[A-Z0-9]+_VISIBLE_DEVICES',
      ...['NOTIFY_SOCKET', 'LISTEN_(FDS|PID|FDNAMES)'],
    ],
  ],
  ['Kubernetes sets it', ['KUBERNETES_.*', 'KUBECONFIG']],
  ['the agent sets it', ['AKRI_BROKER_INFO_DIRECTORY']],
]

// Some programs ignore the case, and curl reads http_proxy: the case never counts.
const COMPILED = FAMILIES.map(
  ([reason, names]) => [reason, new RegExp(`^(?:${names.join('|')})$`, 'is')] as const,
)

/** The longest name that is compared: no real name is longer. */
export const MAX_NAME = 256

/**
 * @returns why a handler must not report a property: how a program would read it; undefined for a
 * property that only describes a device
 */
export function startEffect(name: string, value: string): string | undefined {
  if (name.length > MAX_NAME) return `its name has more than ${MAX_NAME} characters`
  if (/[\p{Cc}\s]/u.test(name)) return 'its name has white space or control characters'
  // Old versions of bash run what follows the function in such a value.
  if (value.startsWith('() {')) return 'shells read its value as a function'
  return COMPILED.find(([, names]) => names.test(name))?.[0]
}
